// Builds with CUDA. See open.h.
#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "daemon/gpu/cuda_codec.h"
#include "daemon/gpu/open.h"
#include "daemon/gpu/probe.h"

namespace causeway::gpu {

absl::StatusOr<std::shared_ptr<GpuCodec>> Open(std::shared_ptr<memory::Account> account) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver) {  // also where there is none at all
      return absl::NotFoundError(absl::StrCat("no NVIDIA driver, or one that is older than CUDA ",
                                              CUDART_VERSION / 1000, ".",
                                              CUDART_VERSION % 1000 / 10));
    }
    return absl::NotFoundError(absl::StrCat("CUDA finds none: ", cudaGetErrorString(error)));
  }
  if (devices == 0) return absl::NotFoundError("CUDA finds no device");
  absl::StatusOr<std::shared_ptr<CudaCodec>> codec = CudaCodec::Create(0, account);
  if (!codec.ok()) return codec.status();
  absl::Status probed = Probe(**codec);
  if (!probed.ok()) return probed;
  return std::shared_ptr<GpuCodec>(*std::move(codec));
}

}  // namespace causeway::gpu
