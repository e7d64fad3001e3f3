// fp32 vectors: the arithmetic of outer updates, casts, checksums.
//
// Pure functions, any thread. Each element is a fixed sequence of IEEE fp32 operations, none fused;
// NaN results are canonical (0x7fc00000), so results and their hashes are the same on every
// machine. Spans of one call have equal sizes and do not overlap unless said; sizes are asserted.
#ifndef CAUSEWAY_COMPRESSION_VECTOR_H_
#define CAUSEWAY_COMPRESSION_VECTOR_H_

#include <cstdint>

#include "absl/types/span.h"
#include "compression/codec.h"

namespace causeway::compression {

// x = fl(x * factor): the division by the sum of weights, factor = fl(1/W).
void ScaleVector(absl::Span<float> x, float factor);

// Rule average: theta = fl(theta - d).
void UpdateAverage(absl::Span<float> theta, absl::Span<const float> d);

// Rule nesterov (torch.optim.SGD with nesterov, dampening 0, d as the gradient):
//   u = fl(fl(mu*u) + d);  theta = fl(theta - fl(eta * fl(d + fl(mu*u))))
void UpdateNesterov(absl::Span<float> theta, absl::Span<float> momentum, absl::Span<const float> d,
                    float eta, float mu);

// Index of the first Inf or NaN, or x.size().
size_t FirstNonFinite(absl::Span<const float> x);

// Casts of n elements between fp32 and dtype (kFp32, kBf16, kFp16): round to nearest even, overflow
// to infinity, NaN canonical.
void CastFromFp32(const float* in, size_t n, DType dtype, void* out);
void CastToFp32(const void* in, size_t n, DType dtype, float* out);

// crc32c (Castagnoli) of bytes appended to those whose crc is `crc`; 0 starts.
uint32_t Crc32c(uint32_t crc, absl::Span<const uint8_t> bytes);

// 64-bit content hash, the hash of a result's chunk. Not against an adversary: members are
// authenticated, and the list of chunk hashes is hashed by SHA-256. Definition (words are
// little-endian u64, arithmetic modulo 2^64, p1 = 9e3779b185ebca87, p2 = c2b2ae3d27d4eb4f, p3 =
// 165667b19e3779f9):
//   h[l] = p2 * (l + 1), l = 0..7
//   per 64 bytes, the last ones zero-padded:   h[l] = rotl(h[l] ^ word[l], 29) * p1
//   r = size * p3;   l = 0..7:  r = rotl(r ^ h[l], 27) * p2 + p3
//   r = (r ^ r >> 32) * p1;  r = (r ^ r >> 29) * p3;  result r ^ r >> 32
uint64_t ContentHash(absl::Span<const uint8_t> bytes);
uint64_t ContentHash(absl::Span<const float> values);

// Name of the instruction-set unit in use: generic, v2, v3, v4.
const char* ActiveIsaName();

// True when this thread neither flushes subnormal results nor treats subnormal inputs as zero, as
// every thread that computes must (frameworks switch it on for their own threads).
bool SubnormalsAreKept();

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_VECTOR_H_
