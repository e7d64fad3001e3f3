// Opens the GPU of this machine. In a build without CUDA it answers UNIMPLEMENTED; the rest of the
// daemon is the same.
#ifndef CAUSEWAY_DAEMON_GPU_OPEN_H_
#define CAUSEWAY_DAEMON_GPU_OPEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/gpu/gpu_codec.h"
#include "daemon/memory/budget.h"

namespace causeway::gpu {

// The first device that CUDA shows (CUDA_VISIBLE_DEVICES chooses), once it has encoded and combined
// a probe to the CPU's bytes. Pinned memory is charged to `account`. NOT_FOUND without a device or
// driver, FAILED_PRECONDITION for one that is too old, RESOURCE_EXHAUSTED, DATA_LOSS when its bytes
// differ.
absl::StatusOr<std::shared_ptr<GpuCodec>> Open(std::shared_ptr<memory::Account> account);

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_OPEN_H_
