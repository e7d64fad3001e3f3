// See cuda_slot.h.
#include "daemon/gpu/cuda_slot.h"

#include <utility>

#include "daemon/gpu/cuda_error.h"

namespace causeway::gpu {

absl::StatusOr<std::unique_ptr<CudaSlot>> CudaSlot::Create(
    const std::shared_ptr<memory::Account>& account) {
  absl::StatusOr<memory::Charge> charge = memory::Charge::Reserve(account, kSlotBytes);
  if (!charge.ok()) return charge.status();
  std::unique_ptr<CudaSlot> slot(new CudaSlot(*std::move(charge)));
  absl::Status status = CudaStatus(cudaStreamCreateWithFlags(&slot->stream_, cudaStreamNonBlocking),
                                   "making a stream");
  if (status.ok()) {
    status = CudaStatus(
        cudaEventCreateWithFlags(&slot->done_, cudaEventBlockingSync | cudaEventDisableTiming),
        "making an event");
  }
  void* memory = nullptr;
  if (status.ok()) {
    status = CudaStatus(cudaHostAlloc(&memory, kSlotBytes, cudaHostAllocDefault), "pinning memory");
    slot->host_ = static_cast<uint8_t*>(memory);
  }
  if (status.ok()) {
    memory = nullptr;
    status = CudaStatus(cudaMalloc(&memory, kSlotBytes), "allocating a slot");
    slot->device_ = static_cast<uint8_t*>(memory);
  }
  if (!status.ok()) return status;
  return slot;
}

CudaSlot::~CudaSlot() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  cudaFree(device_);
  cudaFreeHost(host_);
  if (done_ != nullptr) cudaEventDestroy(done_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status CudaSlot::Upload(void* to, const void* from, uint64_t bytes) {
  return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "upload");
}

absl::Status CudaSlot::Download(void* to, const void* from, uint64_t bytes) {
  return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "download");
}

absl::Status CudaSlot::Wait() {
  const absl::Status recorded = CudaStatus(cudaEventRecord(done_, stream_), "recording an event");
  if (!recorded.ok()) return recorded;
  return CudaStatus(cudaEventSynchronize(done_), "computing");
}

std::unique_ptr<CudaSlot> SlotSet::Take() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &SlotSet::HasFree));
  std::unique_ptr<CudaSlot> slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

void SlotSet::Return(std::unique_ptr<CudaSlot> slot) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(std::move(slot));
}

}  // namespace causeway::gpu
