// The kernel bodies on CUDA threads. See launch.h; CMakeLists.txt holds the flags that keep the
// arithmetic the format's: no fused multiply-add, no flushing of subnormal numbers, exact division.
#include <cuda_runtime.h>

#include "compression/device/bodies.h"
#include "compression/device/launch.h"
#include "compression/device/scan.h"

namespace causeway::compression::device {
namespace {

struct CudaThread {
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
  __device__ uint32_t tile() const { return blockIdx.x; }
  __device__ uint32_t chunk() const { return blockIdx.y; }
  __device__ void Sync() const { __syncthreads(); }
  __device__ uint32_t Exchange(uint32_t value, uint32_t mask) const {
    return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
  }
  __device__ void Add(uint32_t* p, uint32_t n) const { atomicAdd(p, n); }
  __device__ void Max(uint32_t* p, uint32_t n) const { atomicMax(p, n); }
};

template <class Body, class Batch>
__global__ void __launch_bounds__(kTileThreadsMax) Kernel(const __grid_constant__ Batch batch) {
  __shared__ typename Body::Shared shared;
  Body::Run(CudaThread{}, batch, shared);
}

constexpr uint32_t kScanThreads = 256;
constexpr uint32_t kGridChunksMax = 65535;  // the grid's y

__global__ void __launch_bounds__(kScanThreads)
    ScanKernel(const __grid_constant__ ScanBatch batch) {
  Scan(CudaThread{}, batch);
}

template <class Batch>
dim3 Grid(const Batch& batch) {
  return dim3(TilesOfChunk(batch.block, batch.elements), ChunksOf(batch.elements));
}

}  // namespace

int LaunchEncode(CodecKind kind, const EncodeBatch& batch, void* stream) {
  if (batch.elements == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const cudaError_t cleared = cudaMemset2DAsync(batch.chunks, batch.stride, 0, kChunkHeaderBytes,
                                                ChunksOf(batch.elements), on);
  if (cleared != cudaSuccess) return cleared;
  const bool known = VisitBodies(kind, [&]<class Encoder, class Combiner>() {
    Kernel<Encoder, EncodeBatch><<<Grid(batch), TileThreads(batch.block), 0, on>>>(batch);
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

int LaunchCombine(CodecKind kind, const CombineBatch& batch, void* stream) {
  if (batch.elements == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const bool known = VisitBodies(kind, [&]<class Encoder, class Combiner>() {
    Kernel<Combiner, CombineBatch><<<Grid(batch), TileThreads(batch.block), 0, on>>>(batch);
  });
  return known ? cudaGetLastError() : cudaErrorNotSupported;
}

int LaunchScan(const ScanBatch& batch, void* stream) {
  if (batch.elements == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const uint32_t chunks = ChunksOf(batch.elements);
  const cudaError_t cleared = cudaMemsetAsync(batch.first_to_end, 0, chunks * sizeof(uint32_t), on);
  if (cleared != cudaSuccess) return cleared;
  constexpr uint32_t kTiles = kChunkElements / (kScanThreads * kThreadElements);
  for (uint32_t begin = 0; begin < chunks; begin += kGridChunksMax) {
    ScanBatch part = batch;
    const uint64_t first = static_cast<uint64_t>(begin) * kChunkElements;
    part.data = static_cast<const uint8_t*>(batch.data) + first * DTypeBytes(batch.dtype);
    part.elements = batch.elements - first;
    part.first_to_end += begin;
    const uint32_t here = chunks - begin < kGridChunksMax ? chunks - begin : kGridChunksMax;
    ScanKernel<<<dim3(kTiles, here), kScanThreads, 0, on>>>(part);
  }
  return cudaGetLastError();
}

}  // namespace causeway::compression::device
