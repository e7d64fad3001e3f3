// A GPU made of host memory and the CPU's codecs, which counts what it is asked to do and fails
// when told. Host code that followed an address of its memory would go unnoticed, so tests look at
// the counts.
#ifndef CAUSEWAY_TESTS_UNIT_GPU_STAND_IN_H_
#define CAUSEWAY_TESTS_UNIT_GPU_STAND_IN_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compression/device/chunks.h"
#include "compression/vector.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::testing {

class StandInMemory final : public gpu::DeviceMemory {
 public:
  explicit StandInMemory(uint64_t size) : bytes_(size) {}
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  uint64_t size() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

class StandInGpu : public gpu::GpuCodec {
 public:
  std::atomic<int> encoded{0};
  std::atomic<int> combined{0};
  std::atomic<int> scanned{0};
  std::atomic<bool> broken{false};  // every call fails
  std::atomic<bool> wrong{false};   // sums are off by one bit

  std::string Name() const override { return "stand-in"; }
  gpu::Uuid uuid() const override { return {1, 2, 3}; }
  bool Supports(const compression::CodecSpec& codec) const override {
    return compression::device::HasKernels(codec);
  }
  absl::StatusOr<std::unique_ptr<gpu::DeviceMemory>> Allocate(uint64_t bytes) override {
    if (broken) return Broken();
    return std::make_unique<StandInMemory>(bytes);
  }
  absl::StatusOr<std::unique_ptr<gpu::DeviceMemory>> Import(
      const gpu::SharedAllocation& shared) override {
    if (shared.device != uuid()) return absl::InvalidArgumentError("lies on another GPU");
    return Allocate(shared.bytes);
  }

  absl::StatusOr<size_t> EncodeChunk(const gpu::EncodeRequest& request, absl::Span<uint8_t> out,
                                     compression::EncodeStats* stats) override {
    if (broken) return Broken();
    ++encoded;
    std::vector<float> base;
    compression::EncodeInput input;
    if (request.base != nullptr) {
      std::vector<uint32_t> held(request.n);  // room for any dtype
      base.resize(request.n);
      compression::CastFromFp32(request.base, request.n, request.snapshot_dtype, held.data());
      compression::CastToFp32(held.data(), request.n, request.snapshot_dtype, base.data());
      input.base = base.data();
    }
    input.residual_in = request.residual_in;
    input.residual_out = request.residual_out;
    input.snapshot = request.snapshot;
    input.snapshot_dtype = request.snapshot_dtype;
    input.n = request.n;
    input.seed = request.seed;
    return compression::EncodeChunk(request.codec, input, out, stats);
  }

  absl::Status Combine(const compression::CodecSpec&,
                       absl::Span<const gpu::Contribution> contributions, float scale,
                       absl::Span<float> out) override {
    if (broken) return Broken();
    ++combined;
    std::fill(out.begin(), out.end(), 0.0f);
    for (const gpu::Contribution& c : contributions) {
      compression::DecodeAccumulate(c.chunk, c.weight, out.data());
    }
    compression::ScaleVector(out, scale);
    if (wrong) out[0] += 1.0f;
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> FirstNonFinite(const void* data, compression::DType dtype,
                                          uint64_t elements) override {
    if (broken) return Broken();
    ++scanned;
    std::vector<float> values(elements);
    compression::CastToFp32(data, elements, dtype, values.data());
    return compression::FirstNonFinite(values);
  }

  absl::Status CopyToHost(const void* from, uint64_t bytes, void* to) override {
    if (broken) return Broken();
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

 private:
  static absl::Status Broken() { return absl::UnavailableError("GPU: fell off the bus"); }
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_GPU_STAND_IN_H_
