// See probe.h. Needs no way of writing device memory: gradients of zero (a fresh allocation)
// against a base that is not zero give any values that the probe wants.
#include "daemon/gpu/probe.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/vector.h"

namespace causeway::gpu {
namespace {

constexpr uint32_t kElements = 5000;

std::vector<float> Values() {
  std::vector<float> values(kElements);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    // Every sign and mantissa, exponents over forty binary orders.
    const uint32_t bits = (state & 0x807fffffu) | (90u + state % 40u) << 23;
    std::memcpy(&value, &bits, sizeof(value));
  }
  return values;
}

absl::Status ProbeCodec(GpuCodec& codec, const char* name, const std::vector<float>& values,
                        const DeviceMemory& zeros) {
  const compression::CodecSpec spec = compression::CodecSpec::Parse(name).value();
  std::vector<uint8_t> gpu(compression::EncodedSizeMax(spec, kElements));
  std::vector<uint8_t> cpu(gpu.size());
  EncodeRequest request;
  request.codec = spec;
  request.n = kElements;
  request.base = values.data();
  request.snapshot = zeros.data();
  compression::EncodeStats gpu_stats;
  absl::StatusOr<size_t> size = codec.EncodeChunk(request, absl::MakeSpan(gpu), &gpu_stats);
  if (!size.ok()) return size.status();
  gpu.resize(*size);

  const std::vector<float> nothing(kElements);
  compression::EncodeInput input;
  input.base = values.data();
  input.snapshot = nothing.data();
  input.n = kElements;
  compression::EncodeStats cpu_stats;
  cpu.resize(compression::EncodeChunk(spec, input, absl::MakeSpan(cpu), &cpu_stats));
  if (gpu != cpu) {
    return absl::DataLossError(
        absl::StrCat("GPU ", codec.Name(), " encodes ", name, " to other bytes than the CPU"));
  }

  std::vector<float> sum(kElements);
  const Contribution contributions[] = {{cpu, 3.0f}, {cpu, -1.25f}, {cpu, 0.1f}};
  absl::Status combined = codec.Combine(spec, contributions, 0.7f, absl::MakeSpan(sum));
  if (!combined.ok()) return combined;
  std::vector<float> expected(kElements);
  for (const Contribution& c : contributions) {
    compression::DecodeAccumulate(c.chunk, c.weight, expected.data());
  }
  compression::ScaleVector(absl::MakeSpan(expected), 0.7f);
  if (std::memcmp(sum.data(), expected.data(), kElements * sizeof(float)) != 0) {
    return absl::DataLossError(
        absl::StrCat("GPU ", codec.Name(), " combines ", name, " to other values than the CPU"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Probe(GpuCodec& codec) {
  absl::StatusOr<std::unique_ptr<DeviceMemory>> zeros = codec.Allocate(kElements * sizeof(float));
  if (!zeros.ok()) return zeros.status();
  const std::vector<float> values = Values();
  for (const char* name : {"int8", "int4", "nf4", "sign"}) {
    absl::Status probed = ProbeCodec(codec, name, values, **zeros);
    if (!probed.ok()) return probed;
  }
  return absl::OkStatus();
}

}  // namespace causeway::gpu
