// CudaCodec: the GPU codec on one CUDA device. See gpu_codec.h for the contract. Builds with CUDA
// only.
//
// The snapshot stays where the trainer left it. Base and residual are kept in host memory, whatever
// encodes, and pass chunk by chunk: six bytes an element up and two and the codes down, while the
// CPU does nothing but copy.
#ifndef CAUSEWAY_DAEMON_GPU_CUDA_CODEC_H_
#define CAUSEWAY_DAEMON_GPU_CUDA_CODEC_H_

#include <memory>
#include <string>

#include "daemon/gpu/cuda_slot.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::gpu {

inline constexpr int kSlots = 4;

class CudaCodec final : public GpuCodec {
 public:
  // `device` is CUDA's number. Errors as Open's, without the probe.
  static absl::StatusOr<std::shared_ptr<CudaCodec>> Create(
      int device, const std::shared_ptr<memory::Account>& account);
  ~CudaCodec() override;

  std::string Name() const override { return name_; }
  Uuid uuid() const override { return uuid_; }
  bool Supports(const compression::CodecSpec& codec) const override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(uint64_t bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const SharedAllocation& shared) override;
  absl::StatusOr<size_t> EncodeChunk(const EncodeRequest& request, absl::Span<uint8_t> out,
                                     compression::EncodeStats* stats) override;
  absl::Status Combine(const compression::CodecSpec& codec,
                       absl::Span<const Contribution> contributions, float scale,
                       absl::Span<float> out) override;
  absl::StatusOr<uint64_t> FirstNonFinite(const void* data, compression::DType dtype,
                                          uint64_t elements) override;
  absl::Status CopyToHost(const void* from, uint64_t bytes, void* to) override;

 private:
  CudaCodec(int device, std::string name, Uuid uuid, std::unique_ptr<SlotSet> slots);
  absl::Status Enter() const;  // makes the device this thread's

  const int device_;
  const std::string name_;
  const Uuid uuid_;
  std::unique_ptr<SlotSet> slots_;
};

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_CUDA_CODEC_H_
