// How the kernel bodies see the machine that runs them. A body is a template over its `Thread`,
// which offers
//   thread(), threads()     this thread in its tile, and how many share the tile
//   tile(), chunk()         which tile of which chunk
//   Sync()                  waits for all threads of the tile
//   Exchange(value, mask)   the value of thread (thread ^ mask) of the same 32; all 32 call it
//   Add(p, n), Max(p, n)    atomic, on memory that other tiles use, too
// CUDA threads implement it in kernels.cu; in the tests, fibres run in seeded order and real
// threads under the sanitizers do. A thread may leave once nobody waits for anybody any more.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_GRID_H_
#define CAUSEWAY_COMPRESSION_DEVICE_GRID_H_

#include "compression/block_math.h"
#include "compression/device/batch.h"

#if defined(__CUDACC__)
#define CAUSEWAY_DEVICE static __device__ __forceinline__
#else
#define CAUSEWAY_DEVICE static inline
#endif

namespace causeway::compression::device {

// One 16-byte access.
template <typename T>
struct alignas(16) Packet {
  T values[16 / sizeof(T)];
};

// Elements [at, at + kThreadElements) of `data`; zeros from n on.
template <typename T>
CAUSEWAY_DEVICE void LoadEight(const T* data, uint32_t at, uint32_t n, T* values) {
  constexpr uint32_t kPacket = 16 / sizeof(T);
  if (at + kThreadElements <= n) {
    for (uint32_t p = 0; p < kThreadElements / kPacket; ++p) {
      const Packet<T> packet = reinterpret_cast<const Packet<T>*>(data + at)[p];
      for (uint32_t k = 0; k < kPacket; ++k) values[kPacket * p + k] = packet.values[k];
    }
  } else {
    for (uint32_t k = 0; k < kThreadElements; ++k) values[k] = at + k < n ? data[at + k] : T{0};
  }
}

template <typename T>
CAUSEWAY_DEVICE void StoreEight(T* data, uint32_t at, uint32_t n, const T* values) {
  constexpr uint32_t kPacket = 16 / sizeof(T);
  if (at + kThreadElements <= n) {
    for (uint32_t p = 0; p < kThreadElements / kPacket; ++p) {
      Packet<T> packet;
      for (uint32_t k = 0; k < kPacket; ++k) packet.values[k] = values[kPacket * p + k];
      reinterpret_cast<Packet<T>*>(data + at)[p] = packet;
    }
  } else {
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      if (at + k < n) data[at + k] = values[k];
    }
  }
}

// What one thread works on.
struct Place {
  uint32_t chunk;
  uint32_t n;      // elements of the chunk
  uint32_t at;     // the thread's first element in the chunk; may lie behind n
  uint32_t whole;  // n completed to whole blocks
  uint64_t first;  // the chunk's first element in the batch
  Planes planes;
};

template <class Thread, class Batch>
CAUSEWAY_DEVICE Place PlaceOf(const Thread& thread, const Batch& batch) {
  Place place;
  place.chunk = thread.chunk();
  place.first = static_cast<uint64_t>(place.chunk) * kChunkElements;
  const uint64_t left = batch.elements - place.first;
  place.n = left < kChunkElements ? static_cast<uint32_t>(left) : kChunkElements;
  place.at = (thread.tile() * thread.threads() + thread.thread()) * kThreadElements;
  const uint32_t block = batch.block == 0 ? 1u : batch.block;
  place.whole = (place.n + block - 1) / block * block;
  place.planes = left <= kChunkElements ? batch.last : batch.whole;
  return place;
}

// The largest `value` among the threads that share the caller's block of elements. `across` has one
// word for each 32 threads; all threads of the tile call.
template <class Thread>
CAUSEWAY_DEVICE uint32_t BlockMax(const Thread& thread, uint32_t block, uint32_t value,
                                  uint32_t* across) {
  const uint32_t sharing = block / kThreadElements;
  for (uint32_t mask = 1; mask < sharing && mask < kWarpThreads; mask *= 2) {
    const uint32_t other = thread.Exchange(value, mask);
    value = other > value ? other : value;
  }
  if (sharing <= kWarpThreads) return value;
  if (thread.thread() % kWarpThreads == 0) across[thread.thread() / kWarpThreads] = value;
  thread.Sync();
  const uint32_t warps = sharing / kWarpThreads;
  const uint32_t first = thread.thread() / sharing * warps;
  for (uint32_t w = 0; w < warps; ++w) {
    value = across[first + w] > value ? across[first + w] : value;
  }
  return value;
}

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_GRID_H_
