// CudaSlot: a stream of its own, with the buffers in pinned and device memory for one chunk's way
// to the device and back. While one slot's copy is under way another's kernel runs, and what a
// third encoded is being sent: overlap comes from there being several. Builds with CUDA only.
//
// A slot is used by one thread at a time; SlotSet lends them.
#ifndef CAUSEWAY_DAEMON_GPU_CUDA_SLOT_H_
#define CAUSEWAY_DAEMON_GPU_CUDA_SLOT_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "compression/codec.h"
#include "daemon/memory/budget.h"

namespace causeway::gpu {

inline constexpr uint32_t kSlotSources = 2;  // chunks that one launch combines
inline constexpr uint64_t kSlotValueBytes = uint64_t{compression::kChunkElements} * sizeof(float);
// Any plain chunk: fp32 is the largest.
inline constexpr uint64_t kSlotPackedBytes = kSlotValueBytes + 4096;
inline constexpr uint64_t kSlotResidualBytes = kSlotValueBytes;  // of fp32, the larger
inline constexpr uint64_t kSlotBytes =
    kSlotValueBytes + kSlotSources * kSlotPackedBytes + 2 * kSlotResidualBytes;

class CudaSlot {
 public:
  // Pinned memory of kSlotBytes is charged to `account`.
  static absl::StatusOr<std::unique_ptr<CudaSlot>> Create(
      const std::shared_ptr<memory::Account>& account);
  ~CudaSlot();
  CudaSlot(const CudaSlot&) = delete;
  CudaSlot& operator=(const CudaSlot&) = delete;

  cudaStream_t stream() const { return stream_; }
  // fp32 values of one chunk, and packed chunks, here and there.
  float* host_values() const { return reinterpret_cast<float*>(host_); }
  float* device_values() const { return reinterpret_cast<float*>(device_); }
  uint8_t* host_packed(uint32_t i) const { return host_ + Packed(i); }
  uint8_t* device_packed(uint32_t i) const { return device_ + Packed(i); }
  // Residuals of one chunk: 0 goes in, 1 comes out.
  uint8_t* host_residual(uint32_t i) const { return host_ + Residual(i); }
  uint8_t* device_residual(uint32_t i) const { return device_ + Residual(i); }

  absl::Status Upload(void* to, const void* from, uint64_t bytes);
  absl::Status Download(void* to, const void* from, uint64_t bytes);
  // Until everything on the stream is done. Sleeps rather than spins.
  absl::Status Wait();

 private:
  explicit CudaSlot(memory::Charge charge) : charge_(std::move(charge)) {}
  static constexpr uint64_t Packed(uint32_t i) { return kSlotValueBytes + i * kSlotPackedBytes; }
  static constexpr uint64_t Residual(uint32_t i) {
    return Packed(kSlotSources) + i * kSlotResidualBytes;
  }

  memory::Charge charge_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  uint8_t* host_ = nullptr;
  uint8_t* device_ = nullptr;
};

class SlotSet {
 public:
  explicit SlotSet(std::vector<std::unique_ptr<CudaSlot>> slots) : free_(std::move(slots)) {}

  class Loan {
   public:
    explicit Loan(SlotSet& set) : set_(set), slot_(set.Take()) {}
    ~Loan() { set_.Return(std::move(slot_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    CudaSlot* operator->() const { return slot_.get(); }

   private:
    SlotSet& set_;
    std::unique_ptr<CudaSlot> slot_;
  };

 private:
  bool HasFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !free_.empty(); }
  // Waits for a slot to come back; holders wait for the device only.
  std::unique_ptr<CudaSlot> Take();
  void Return(std::unique_ptr<CudaSlot> slot);

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<CudaSlot>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_CUDA_SLOT_H_
