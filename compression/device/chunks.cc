// See chunks.h.
#include "compression/device/chunks.h"

#include <cassert>
#include <cstring>

#include "compression/codec_internal.h"
#include "compression/device/bodies.h"

namespace causeway::compression::device {
namespace {

static_assert(sizeof(ChunkCounts) <= kChunkHeaderBytes);

Planes PlanesOf(const CodecSpec& spec, uint64_t elements) {
  const ChunkLayout layout = LayoutOf(spec.kind, spec.block, static_cast<uint32_t>(elements));
  return {layout.scale_bytes_used, layout.scale_bytes, layout.code_bytes_used, layout.code_bytes};
}

template <class Batch>
Batch BatchOf(const CodecSpec& spec, uint64_t elements) {
  assert(HasKernels(spec) && elements <= uint64_t{kBatchChunksMax} * kChunkElements);
  Batch batch = {};
  batch.elements = elements;
  batch.stride = ChunkStride(spec);
  batch.block = spec.block;
  batch.whole = PlanesOf(spec, kChunkElements);
  const uint64_t rest = elements % kChunkElements;
  batch.last = rest == 0 && elements > 0 ? batch.whole : PlanesOf(spec, rest);
  return batch;
}

}  // namespace

bool HasKernels(const CodecSpec& spec) {
  return VisitBodies(spec.kind, []<class Encoder, class Combiner>() {});
}

uint32_t ChunkStride(const CodecSpec& spec) {
  return static_cast<uint32_t>(EncodedSizeMax(spec, kChunkElements));
}

EncodeBatch EncodeBatchOf(const CodecSpec& spec, uint64_t elements) {
  auto batch = BatchOf<EncodeBatch>(spec, elements);
  batch.nonfinite_bits = NonFiniteBits(spec);
  batch.stochastic = spec.stochastic;
  batch.decay = static_cast<float>(spec.decay) / 1000.0f;
  return batch;
}

CombineBatch CombineBatchOf(const CodecSpec& spec, uint64_t elements) {
  return BatchOf<CombineBatch>(spec, elements);
}

size_t FinishChunk(const CodecSpec& spec, DType snapshot_dtype, uint32_t n, uint32_t seed,
                   absl::Span<uint8_t> chunk, EncodeStats* stats) {
  ChunkCounts counts = {};
  if (n > 0) std::memcpy(&counts, chunk.data(), sizeof(counts));
  if (counts.nonfinite != 0) {
    stats->nonfinite += counts.nonfinite;
    stats->first_nonfinite = kChunkElements - counts.first_to_end;
  }
  EncodeInput input;
  input.snapshot_dtype = snapshot_dtype;
  input.n = n;
  input.seed = seed;
  const Planes planes = PlanesOf(spec, n);
  ChunkHeader header = HeaderOf(spec, input, counts.nonfinite != 0);
  header.scale_bytes = planes.scale_bytes;
  header.code_bytes = planes.code_bytes;
  return compression::FinishChunk(header, chunk);
}

}  // namespace causeway::compression::device
