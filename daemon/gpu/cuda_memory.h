// Device memory: our own, and what trainers share. Builds with CUDA only. Any thread whose current
// device is the one meant; released on any thread.
#ifndef CAUSEWAY_DAEMON_GPU_CUDA_MEMORY_H_
#define CAUSEWAY_DAEMON_GPU_CUDA_MEMORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::gpu {

absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateOnDevice(int device, uint64_t bytes);
// The device's UUID was compared by the caller.
absl::StatusOr<std::unique_ptr<DeviceMemory>> ImportToDevice(int device,
                                                             const SharedAllocation& shared);

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_CUDA_MEMORY_H_
