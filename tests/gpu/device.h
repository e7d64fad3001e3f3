// What the GPU checks share: buffers in device memory, batches launched on them, and a way out when
// CUDA fails. Needs a GPU.
#ifndef CAUSEWAY_TESTS_GPU_DEVICE_H_
#define CAUSEWAY_TESTS_GPU_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "compression/codec.h"
#include "tests/unit/compression/device_support.h"

namespace causeway::gpu_check {

// Ends the program with CUDA's words.
inline void Must(int code, const char* doing) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(static_cast<cudaError_t>(code)));
  std::exit(1);
}

// `bytes` of device memory, filled with a pattern that no test expects.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    Must(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), "cudaMalloc");
    Must(cudaMemset(data_, 0xa5, bytes == 0 ? 1 : bytes), "cudaMemset");
  }
  DeviceBuffer(const void* from, size_t bytes) : DeviceBuffer(bytes) {
    if (bytes > 0) Must(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "upload");
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T = uint8_t>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return bytes_; }
  void Read(void* to, size_t bytes) const {
    if (bytes > 0) Must(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "download");
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// As device_test::EncodeOnGrid and CombineOnGrid, on the GPU.
compression::device_test::Encoded EncodeOnGpu(const compression::CodecSpec& spec,
                                              const compression::device_test::Source& source,
                                              bool cast_base = false);
std::vector<float> CombineOnGpu(const compression::CodecSpec& spec,
                                const std::vector<compression::device_test::Encoded>& sources,
                                const std::vector<float>& weights, const std::vector<float>& sum,
                                float scale, uint64_t elements);

// Each returns the number of failures and prints them.
int CheckKernels();            // bytes, residuals, sums, scans against the CPU's
int CheckCodec();              // daemon/gpu: several threads, and memory shared by another process
int ExportMemory(int socket);  // that other process
// Prints rates, and writes rows to `json` unless it is empty.
void MeasureKernels(const char* json);

}  // namespace causeway::gpu_check

#endif  // CAUSEWAY_TESTS_GPU_DEVICE_H_
