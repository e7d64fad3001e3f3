// See device_support.h.
#include "tests/unit/compression/device_support.h"

#include <algorithm>

#include "compression/codec_internal.h"
#include "compression/device/bodies.h"
#include "compression/device/chunks.h"
#include "compression/vector.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression::device_test {
namespace {

uint32_t ChunkElementsOf(uint64_t elements, uint32_t chunk) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(kChunkElements, elements - uint64_t{chunk} * kChunkElements));
}

std::vector<uint8_t> BytesOf(const std::vector<float>& values, DType dtype) {
  std::vector<uint8_t> bytes(values.size() * DTypeBytes(dtype));
  CastFromFp32(values.data(), values.size(), dtype, bytes.data());
  return bytes;
}

}  // namespace

bool operator==(const Encoded& a, const Encoded& b) {
  const auto same = [](const EncodeStats& x, const EncodeStats& y) {
    return x.nonfinite == y.nonfinite && x.first_nonfinite == y.first_nonfinite;
  };
  return a.chunks == b.chunks && a.residual == b.residual && a.stats.size() == b.stats.size() &&
         std::equal(a.stats.begin(), a.stats.end(), b.stats.begin(), same);
}

Encoded EncodeOnCpu(const CodecSpec& spec, const Source& source) {
  Encoded result;
  if (source.keep_residual) {
    result.residual.resize(source.elements * DTypeBytes(source.residual_dtype));
  }
  for (uint32_t c = 0; c < device::ChunksOf(source.elements); ++c) {
    const uint64_t first = uint64_t{c} * kChunkElements;
    EncodeInput input;
    input.n = ChunkElementsOf(source.elements, c);
    input.seed = spec.stochastic ? source.seeds.at(c) : 0;
    if (!source.base.empty()) input.base = source.base.data() + first;
    input.snapshot_dtype = source.dtype;
    input.snapshot = source.snapshot.data() + first * DTypeBytes(source.dtype);
    input.residual_dtype = source.residual_dtype;
    const size_t offset = first * DTypeBytes(source.residual_dtype);
    if (!source.residual_in.empty()) input.residual_in = source.residual_in.data() + offset;
    if (source.keep_residual) input.residual_out = result.residual.data() + offset;
    std::vector<uint8_t> bytes(EncodedSizeMax(spec, input.n));
    EncodeStats stats;
    bytes.resize(
        EncodeChunkWith(*KernelsFor(Isa::kGeneric), spec, input, absl::MakeSpan(bytes), &stats));
    result.chunks.push_back(std::move(bytes));
    result.stats.push_back(stats);
  }
  return result;
}

device::EncodeBatch BatchOf(const CodecSpec& spec, const Source& source, const SourcePointers& at,
                            bool cast_base) {
  device::EncodeBatch batch = device::EncodeBatchOf(spec, source.elements);
  if (!source.base.empty()) batch.base = at.base;
  batch.snapshot = at.snapshot;
  if (!source.residual_in.empty()) batch.residual_in = at.residual_in;
  if (source.keep_residual) batch.residual_out = at.residual_out;
  batch.chunks = at.chunks;
  batch.snapshot_dtype = source.dtype;
  batch.residual_dtype = source.residual_dtype;
  batch.cast_base = cast_base;
  for (size_t c = 0; c < source.seeds.size() && spec.stochastic; ++c) {
    batch.seeds[c] = source.seeds[c];
  }
  return batch;
}

Encoded EncodeOnGrid(const CodecSpec& spec, const Source& source, grid::Machine machine,
                     uint64_t seed, bool cast_base) {
  const Exact<float> base(source.base);
  const Exact<uint8_t> snapshot(source.snapshot);
  const Exact<uint8_t> residual_in(source.residual_in);
  const Exact<uint8_t> residual_out(
      source.keep_residual ? source.elements * DTypeBytes(source.residual_dtype) : 0);
  device::EncodeBatch batch = device::EncodeBatchOf(spec, source.elements);
  const uint32_t chunks = device::ChunksOf(source.elements);
  // The last chunk ends with its planes, as in the daemon's buffers.
  size_t bytes = 0;
  if (chunks > 0) {
    bytes = size_t{chunks - 1} * batch.stride +
            EncodedSizeMax(spec, ChunkElementsOf(source.elements, chunks - 1));
  }
  const Exact<uint8_t> out(bytes);
  batch =
      BatchOf(spec, source,
              {base.data(), snapshot.data(), residual_in.data(), residual_out.data(), out.data()},
              cast_base);
  for (uint32_t c = 0; c < chunks; ++c) {  // as the launcher does
    std::memset(out.data() + size_t{c} * batch.stride, 0, kChunkHeaderBytes);
  }
  const grid::Shape shape{device::TilesOfChunk(batch.block, source.elements), chunks,
                          device::TileThreads(batch.block)};
  device::VisitBodies(spec.kind, [&]<class Encoder, class Combiner>() {
    using Shared = typename Encoder::Shared;
    const grid::Verdict verdict =
        grid::Run(machine, shape, seed, sizeof(Shared), [&](const grid::Thread& thread, void* p) {
          Encoder::Run(thread, batch, *static_cast<Shared*>(p));
        });
    if (verdict != grid::Verdict::kDone) std::abort();
  });

  Encoded result;
  result.residual = residual_out.ToVector();
  for (uint32_t c = 0; c < chunks; ++c) {
    const uint32_t n = ChunkElementsOf(source.elements, c);
    uint8_t* begin = out.data() + size_t{c} * batch.stride;
    std::vector<uint8_t> chunk(begin, begin + EncodedSizeMax(spec, n));
    EncodeStats stats;
    const size_t size =
        device::FinishChunk(spec, source.dtype, n, batch.seeds[c], absl::MakeSpan(chunk), &stats);
    if (size != chunk.size()) std::abort();
    result.chunks.push_back(std::move(chunk));
    result.stats.push_back(stats);
  }
  return result;
}

std::vector<float> CombineOnCpu(const std::vector<Encoded>& sources,
                                const std::vector<float>& weights, std::vector<float> sum,
                                float scale, uint64_t elements) {
  sum.resize(elements, 0.0f);
  for (size_t s = 0; s < sources.size(); ++s) {
    for (size_t c = 0; c < sources[s].chunks.size(); ++c) {
      DecodeAccumulateWith(*KernelsFor(Isa::kGeneric), sources[s].chunks[c], weights[s],
                           sum.data() + c * kChunkElements);
    }
  }
  ScaleVector(absl::MakeSpan(sum), scale);
  return sum;
}

std::vector<float> CombineOnGrid(const CodecSpec& spec, const std::vector<Encoded>& sources,
                                 const std::vector<float>& weights, const std::vector<float>& sum,
                                 float scale, uint64_t elements, grid::Machine machine,
                                 uint64_t seed) {
  const Exact<float> out(elements);
  if (!sum.empty()) std::memcpy(out.data(), sum.data(), elements * sizeof(float));
  device::CombineBatch batch = device::CombineBatchOf(spec, elements);
  batch.sum = out.data();
  batch.fresh = sum.empty();
  batch.scaled = true;
  batch.scale = scale;
  std::vector<Exact<uint8_t>> packed;
  for (size_t s = 0; s < sources.size(); ++s) {
    std::vector<uint8_t> bytes;
    for (const std::vector<uint8_t>& chunk : sources[s].chunks) {
      bytes.insert(bytes.end(), chunk.begin(), chunk.end());  // all but the last have the stride
    }
    packed.emplace_back(bytes);
    batch.sources[s] = packed.back().data();
    batch.weights[s] = weights[s];
  }
  batch.source_count = static_cast<uint32_t>(sources.size());
  const grid::Shape shape{device::TilesOfChunk(batch.block, elements), device::ChunksOf(elements),
                          device::TileThreads(batch.block)};
  device::VisitBodies(spec.kind, [&]<class Encoder, class Combiner>() {
    using Shared = typename Combiner::Shared;
    const grid::Verdict verdict =
        grid::Run(machine, shape, seed, sizeof(Shared), [&](const grid::Thread& thread, void* p) {
          Combiner::Run(thread, batch, *static_cast<Shared*>(p));
        });
    if (verdict != grid::Verdict::kDone) std::abort();
  });
  return out.ToVector();
}

std::vector<CodecSpec> SpecsWithKernels() {
  std::vector<CodecSpec> specs;
  for (const CodecSpec& spec : samples::AllSpecs()) {
    if (device::HasKernels(spec)) specs.push_back(spec);
  }
  for (const char* text :
       {"int4:b512", "nf4:b4096", "sign:b4096", "fp8:b2048", "int8:ef:decay950"}) {
    specs.push_back(CodecSpec::Parse(text).value());
  }
  return specs;
}

Source PlainSource(const std::vector<float>& values) {
  Source source;
  source.snapshot = BytesOf(values, DType::kFp32);
  source.elements = values.size();
  source.seeds = {5, 6, 7};
  return source;
}

Source FullSource(const std::vector<float>& values, DType dtype, DType residual_dtype) {
  Source source = PlainSource(values);
  const auto n = static_cast<uint32_t>(values.size());
  source.base = samples::Noise(n, 77);
  source.snapshot = BytesOf(values, dtype);
  source.dtype = dtype;
  source.residual_dtype = residual_dtype;
  source.residual_in = BytesOf(samples::Noise(n, 78, 1e-4), residual_dtype);
  source.keep_residual = true;
  return source;
}

}  // namespace causeway::compression::device_test
