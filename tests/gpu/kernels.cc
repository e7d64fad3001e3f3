// The kernels' bytes, residuals, sums and scans against the scalar CPU reference.
#include <cstring>
#include <string>

#include "compression/device/bodies.h"
#include "compression/device/chunks.h"
#include "compression/device/launch.h"
#include "compression/vector.h"
#include "tests/gpu/device.h"
#include "tests/unit/compression/samples.h"

namespace causeway::gpu_check {

using compression::CodecSpec;
using compression::DType;
using compression::DTypeBytes;
using compression::EncodeStats;
using compression::kChunkElements;
using compression::device_test::Encoded;
using compression::device_test::Source;
namespace device = compression::device;
namespace samples = compression::samples;

namespace {

uint32_t ChunkElementsOf(uint64_t elements, uint32_t chunk) {
  const uint64_t left = elements - uint64_t{chunk} * kChunkElements;
  return left < kChunkElements ? static_cast<uint32_t>(left) : kChunkElements;
}

}  // namespace

Encoded EncodeOnGpu(const CodecSpec& spec, const Source& source, bool cast_base) {
  const DeviceBuffer base(source.base.data(), source.base.size() * sizeof(float));
  const DeviceBuffer snapshot(source.snapshot.data(), source.snapshot.size());
  const DeviceBuffer residual_in(source.residual_in.data(), source.residual_in.size());
  const size_t residual_bytes =
      source.keep_residual ? source.elements * DTypeBytes(source.residual_dtype) : 0;
  const DeviceBuffer residual_out(residual_bytes);
  device::EncodeBatch batch = device::EncodeBatchOf(spec, source.elements);
  const uint32_t chunks = device::ChunksOf(source.elements);
  const DeviceBuffer out(size_t{chunks} * batch.stride);
  batch = compression::device_test::BatchOf(
      spec, source,
      {base.as<float>(), snapshot.as(), residual_in.as(), residual_out.as(), out.as()}, cast_base);
  Must(device::LaunchEncode(spec.kind, batch, nullptr), "encode");
  Must(cudaDeviceSynchronize(), "encode");
  Encoded result;
  result.residual.resize(residual_bytes);
  residual_out.Read(result.residual.data(), residual_bytes);
  std::vector<uint8_t> bytes(out.size());
  out.Read(bytes.data(), bytes.size());
  for (uint32_t c = 0; c < chunks; ++c) {
    const uint32_t n = ChunkElementsOf(source.elements, c);
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(size_t{c} * batch.stride);
    std::vector<uint8_t> chunk(
        begin, begin + static_cast<ptrdiff_t>(compression::EncodedSizeMax(spec, n)));
    EncodeStats stats;
    device::FinishChunk(spec, source.dtype, n, batch.seeds[c], absl::MakeSpan(chunk), &stats);
    result.chunks.push_back(std::move(chunk));
    result.stats.push_back(stats);
  }
  return result;
}

std::vector<float> CombineOnGpu(const CodecSpec& spec, const std::vector<Encoded>& sources,
                                const std::vector<float>& weights, const std::vector<float>& sum,
                                float scale, uint64_t elements) {
  const DeviceBuffer out(sum.data(), sum.empty() ? 0 : elements * sizeof(float));
  const DeviceBuffer fresh(sum.empty() ? elements * sizeof(float) : 0);
  const DeviceBuffer& result = sum.empty() ? fresh : out;
  device::CombineBatch batch = device::CombineBatchOf(spec, elements);
  batch.sum = result.as<float>();
  batch.fresh = sum.empty();
  batch.scaled = true;
  batch.scale = scale;
  std::vector<std::unique_ptr<DeviceBuffer>> packed;
  for (size_t s = 0; s < sources.size(); ++s) {
    std::vector<uint8_t> bytes;
    for (const std::vector<uint8_t>& chunk : sources[s].chunks) {
      bytes.insert(bytes.end(), chunk.begin(), chunk.end());
    }
    packed.push_back(std::make_unique<DeviceBuffer>(bytes.data(), bytes.size()));
    batch.sources[s] = packed.back()->as();
    batch.weights[s] = weights[s];
  }
  batch.source_count = static_cast<uint32_t>(sources.size());
  Must(device::LaunchCombine(spec.kind, batch, nullptr), "combine");
  Must(cudaDeviceSynchronize(), "combine");
  std::vector<float> values(elements);
  result.Read(values.data(), elements * sizeof(float));
  return values;
}

namespace {

class Kernels {
 public:
  int Run() {
    std::vector<samples::Sample> inputs = samples::HostileSamples();
    inputs.push_back({"delta", samples::ReadSlice("delta_slice.f32")});
    inputs.push_back({"gradient", samples::ReadSlice("gradient_slice.f32")});
    inputs.push_back({"three chunks", samples::Noise(2 * kChunkElements + 4097, 1)});
    for (const samples::Sample& input : inputs) {
      for (const CodecSpec& spec : compression::device_test::SpecsWithKernels()) {
        Encode(spec, input);
        Combine(spec, input);
      }
      Scan(input);
    }
    std::printf("kernels: %d comparisons, %d failures\n", compared_, failures_);
    return failures_;
  }

 private:
  void Expect(bool same, const std::string& what, const samples::Sample& input,
              const std::string& spec) {
    ++compared_;
    if (same) return;
    ++failures_;
    std::printf("DIFFERS: %s of '%s' by %s\n", what.c_str(), input.name.c_str(), spec.c_str());
  }

  void Encode(const CodecSpec& spec, const samples::Sample& input) {
    using compression::device_test::EncodeOnCpu;
    const Source plain = compression::device_test::PlainSource(input.values);
    Expect(EncodeOnGpu(spec, plain) == EncodeOnCpu(spec, plain), "chunk", input, spec.ToString());
    for (DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      const DType kept = dtype == DType::kBf16 ? DType::kFp32 : DType::kBf16;
      const Source full = compression::device_test::FullSource(input.values, dtype, kept);
      Expect(EncodeOnGpu(spec, full) == EncodeOnCpu(spec, full), "chunk and residual", input,
             spec.ToString());
    }
  }

  void Combine(const CodecSpec& spec, const samples::Sample& input) {
    const auto n = static_cast<uint32_t>(input.values.size());
    const std::vector<Encoded> sources = {
        compression::device_test::EncodeOnCpu(spec,
                                              compression::device_test::PlainSource(input.values)),
        compression::device_test::EncodeOnCpu(
            spec, compression::device_test::PlainSource(samples::Noise(n, 3)))};
    const std::vector<float> weights = {-1.7f, 3.0f};
    for (const std::vector<float>& from : {std::vector<float>(), input.values}) {
      const std::vector<float> gpu = CombineOnGpu(spec, sources, weights, from, 0.3f, n);
      const std::vector<float> cpu =
          compression::device_test::CombineOnCpu(sources, weights, from, 0.3f, n);
      Expect(n == 0 || std::memcmp(gpu.data(), cpu.data(), n * sizeof(float)) == 0, "sum", input,
             spec.ToString());
    }
  }

  void Scan(const samples::Sample& input) {
    const DeviceBuffer data(input.values.data(), input.values.size() * sizeof(float));
    const uint32_t chunks = device::ChunksOf(input.values.size());
    const DeviceBuffer found(chunks * sizeof(uint32_t));
    Must(device::LaunchScan({data.as(), input.values.size(), DType::kFp32, found.as<uint32_t>()},
                            nullptr),
         "scan");
    Must(cudaDeviceSynchronize(), "scan");
    std::vector<uint32_t> to_end(chunks);
    found.Read(to_end.data(), chunks * sizeof(uint32_t));
    size_t first = input.values.size();
    for (uint32_t c = chunks; c-- > 0;) {
      if (to_end[c] == 0) continue;
      first = size_t{c} * kChunkElements + ChunkElementsOf(input.values.size(), c) - to_end[c];
    }
    Expect(first == compression::FirstNonFinite(input.values), "scan", input, "");
  }

  int compared_ = 0;
  int failures_ = 0;
};

}  // namespace

int CheckKernels() { return Kernels().Run(); }

}  // namespace causeway::gpu_check
