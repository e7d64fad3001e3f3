// Names of codecs and element types, and the sizes that every encoder shares. Plain constants: the
// CUDA kernels include this and nothing larger.
#ifndef CAUSEWAY_COMPRESSION_KINDS_H_
#define CAUSEWAY_COMPRESSION_KINDS_H_

#include <cstddef>
#include <cstdint>

namespace causeway::compression {

// Ids on the wire: never reused, never renumbered.
enum class CodecKind : uint8_t {
  kFp32 = 0,
  kBf16 = 1,
  kFp16 = 2,
  kInt8 = 3,
  kInt4 = 4,
  kNf4 = 5,
  kFp8 = 6,
  kMxfp4 = 7,
  kE3m0 = 8,
  kTwoBit = 9,
  kSign = 10,
  kTopK = 11,
  kBlockTopK = 12,
  kBf16Planes = 13,
  kFp32Planes = 14,
  kCosine = 15,
  kPatch = 16,
  kLowRank = 17,
};
inline constexpr int kCodecKinds = 18;

// Element types of tensors, of snapshots and of residuals. Ids on the wire.
enum class DType : uint8_t { kFp32 = 0, kBf16 = 1, kFp16 = 2, kInt32 = 3, kInt64 = 4 };

// Bytes of one element.
constexpr size_t DTypeBytes(DType dtype) {
  return dtype == DType::kInt64 ? 8 : dtype == DType::kFp32 || dtype == DType::kInt32 ? 4 : 2;
}

inline constexpr uint32_t kChunkElements = 1u << 18;
inline constexpr uint32_t kChunkHeaderBytes = 32;
inline constexpr uint32_t kPlaneAlignment = 64;  // planes are zero-padded to a multiple of this
inline constexpr uint32_t kRankMax = 64;
inline constexpr uint32_t kBlockMin = 32;
inline constexpr uint32_t kBlockMax = 4096;

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_KINDS_H_
