// What one launch of a kernel works on: consecutive chunks of one fragment. Passed by value to the
// device, so plain data, and free of everything but constants.
//
// Pointers are the device's. `base`, `snapshot`, `sum` and chunks are aligned to 16 bytes,
// residuals to 16; `stride` is a multiple of 16: threads move eight elements at once.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_BATCH_H_
#define CAUSEWAY_COMPRESSION_DEVICE_BATCH_H_

#include <cstdint>

#include "compression/kinds.h"

namespace causeway::compression::device {

inline constexpr uint32_t kThreadElements = 8;   // consecutive ones, of each thread
inline constexpr uint32_t kBatchChunksMax = 64;  // of one launch
inline constexpr uint32_t kBatchSourcesMax = 8;  // contributions that one launch sums
inline constexpr uint32_t kWarpThreads = 32;
inline constexpr uint32_t kTileThreadsMax = kBlockMax / kThreadElements;
inline constexpr uint32_t kTileElementsMax = kBlockMax;

// Where the planes of an encoded chunk lie behind its header, in bytes; used, and with padding.
struct Planes {
  uint32_t scale_used;
  uint32_t scale_bytes;
  uint32_t code_used;
  uint32_t code_bytes;
};

// What an encoder counts, in the room of the chunk's header, until the host writes that over it.
// Zero when the kernel starts.
struct ChunkCounts {
  uint32_t nonfinite;     // values that are Inf, NaN or too large for the codec
  uint32_t first_to_end;  // kChunkElements - index of the first of them; 0: none
};

struct EncodeBatch {
  const float* base;  // null: the snapshot itself is encoded
  const void* snapshot;
  const void* residual_in;  // null: zero
  void* residual_out;       // null: not wanted; not residual_in
  uint8_t* chunks;          // chunk c begins at c * stride, with its header
  uint64_t elements;        // of all chunks together; all but the last have kChunkElements
  uint32_t stride;
  uint32_t block;           // elements; 0 for casts
  uint32_t nonfinite_bits;  // magnitudes from here on count as non-finite
  Planes whole;             // of a chunk of kChunkElements
  Planes last;              // of the last chunk
  DType snapshot_dtype;
  DType residual_dtype;  // kBf16 or kFp32
  bool cast_base;        // the base counts as the trainer holds it: cast to the snapshot's dtype
  bool stochastic;
  float decay;
  uint32_t seeds[kBatchChunksMax];  // by chunk; of stochastic rounding
};

// sum[i] = fl(sum[i] + fl(weight * decoded[i])) for each source in order, then fl(sum[i] * scale).
struct CombineBatch {
  const uint8_t* sources[kBatchSourcesMax];  // chunk c of a source begins at c * stride
  float weights[kBatchSourcesMax];
  float* sum;
  uint64_t elements;
  uint32_t source_count;
  uint32_t stride;
  uint32_t block;
  Planes whole;
  Planes last;
  bool fresh;   // the sum starts at 0, and what lies there is not read
  bool scaled;  // multiply by `scale` at the end
  float scale;
};

// Looks for Inf and NaN in kFp32, kBf16 or kFp16 `data`, aligned to 16 bytes.
struct ScanBatch {
  const void* data;
  uint64_t elements;
  DType dtype;
  // A word for each chunk of kChunkElements: its elements less the index of the first found; 0:
  // none. Zero when the kernel starts.
  uint32_t* first_to_end;
};

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_BATCH_H_
