// Builds without CUDA. See open.h.
#include "daemon/gpu/open.h"

namespace causeway::gpu {

absl::StatusOr<std::shared_ptr<GpuCodec>> Open(std::shared_ptr<memory::Account>) {
  return absl::UnimplementedError(
      "this causewayd was built without CUDA; build it where the CUDA toolkit is installed");
}

}  // namespace causeway::gpu
