// CUDA's errors as statuses. Builds with CUDA only.
#ifndef CAUSEWAY_DAEMON_GPU_CUDA_ERROR_H_
#define CAUSEWAY_DAEMON_GPU_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace causeway::gpu {

// OK, or what failed in CUDA's words. `doing` reads after "GPU: ".
inline absl::Status CudaStatus(int code, absl::string_view doing) {
  const auto error = static_cast<cudaError_t>(code);
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or it is reported again by the next call
  const std::string text = absl::StrCat("GPU: ", doing, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_CUDA_ERROR_H_
