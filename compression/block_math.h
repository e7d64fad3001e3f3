// The arithmetic of the codecs, element by element: the one source that every CPU unit and every
// CUDA kernel compiles. Each function is a fixed sequence of IEEE fp32 operations (round to nearest
// even, none fused, no libm) or of integer operations, so its result has the same bits everywhere.
//
// Internal linkage on purpose: the same text is compiled for several instruction sets, and a linker
// that merged the copies would hand AVX-512 code to a machine without it.
#ifndef CAUSEWAY_COMPRESSION_BLOCK_MATH_H_
#define CAUSEWAY_COMPRESSION_BLOCK_MATH_H_

#include <cstdint>

#if defined(__CUDACC__)
#define CAUSEWAY_HD static __host__ __device__ __forceinline__
#else
#define CAUSEWAY_HD static inline __attribute__((always_inline))
#endif

namespace causeway::compression::math {

inline constexpr uint32_t kCanonicalNan = 0x7fc00000u;
inline constexpr uint16_t kCanonicalNanBf16 = 0x7fc0u;
inline constexpr uint16_t kCanonicalNanFp16 = 0x7e00u;
inline constexpr uint32_t kInfBits = 0x7f800000u;
// A block whose largest magnitude is 2^127 or more counts as non-finite: a scale rounded up could
// otherwise decode a finite value to infinity.
inline constexpr uint32_t kHugeBits = 0x7f000000u;
// The same limit for codecs that sum a block: 4096 values below 2^112 sum to a finite number.
inline constexpr uint32_t kMeanHugeBits = 0x77800000u;
// A block whose largest magnitude is below 2^-100 becomes zero: no step then meets a subnormal
// number.
inline constexpr uint32_t kTinyBits = 0x0d800000u;

CAUSEWAY_HD uint32_t Bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

CAUSEWAY_HD float FromBits(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

CAUSEWAY_HD uint32_t AbsBits(float x) { return Bits(x) & 0x7fffffffu; }

// Any NaN becomes the canonical one: payload and sign depend on the machine that made it.
CAUSEWAY_HD float Canonical(float x) { return x == x ? x : FromBits(kCanonicalNan); }

// One step of a sum over contributors: fl(acc + fl(weight * d)).
CAUSEWAY_HD float Accumulate(float acc, float weight, float d) {
  float product = weight * d;
  return Canonical(acc + product);
}

// bf16 -> fp32, exact.
CAUSEWAY_HD float FromBf16(uint16_t h) { return FromBits(static_cast<uint32_t>(h) << 16); }

// fp32 -> bf16, round to nearest even; overflow to infinity; NaN canonical.
CAUSEWAY_HD uint16_t ToBf16(float x) {
  uint32_t bits = Bits(x);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t nan = (bits & 0x7fffffffu) > kInfBits;
  return static_cast<uint16_t>(nan ? kCanonicalNanBf16 : rounded);
}

// fp32 -> bf16 of a finite x >= 0, rounded up: never below x.
CAUSEWAY_HD uint16_t ToBf16Up(float x) { return static_cast<uint16_t>((Bits(x) + 0xffffu) >> 16); }

// fp16 -> fp32, exact; NaN canonical.
CAUSEWAY_HD float FromFp16(uint16_t h) {
  uint32_t magnitude = h & 0x7fffu;
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t shifted = magnitude << 13;
  uint32_t normal = shifted + (112u << 23);
  uint32_t subnormal = Bits(FromBits(shifted + (113u << 23)) - FromBits(113u << 23));
  uint32_t out = magnitude < 0x0400u ? subnormal : normal;
  out = magnitude >= 0x7c00u ? kInfBits : out;
  out |= sign;
  return FromBits(magnitude > 0x7c00u ? kCanonicalNan : out);
}

// fp32 -> fp16, round to nearest even; overflow to infinity; NaN canonical.
CAUSEWAY_HD uint16_t ToFp16(float x) {
  uint32_t bits = Bits(x);
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // 0.5 has steps of 2^-24, the spacing of fp16's subnormals: the addition rounds.
  uint32_t subnormal = Bits(FromBits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t out = magnitude < 0x38800000u ? subnormal : normal;
  out = magnitude >= 0x477ff000u ? 0x7c00u : out;
  out = magnitude > kInfBits ? static_cast<uint32_t>(kCanonicalNanFp16) : (out | sign);
  return static_cast<uint16_t>(out);
}

// As the casts, but a finite value never becomes infinite: the largest finite value stands in.
CAUSEWAY_HD uint16_t ToBf16Saturated(float x) {
  uint32_t magnitude = AbsBits(x);
  uint32_t h = ToBf16(x);
  return static_cast<uint16_t>((h & 0x7fffu) == 0x7f80u && magnitude < kInfBits ? h - 1u : h);
}

CAUSEWAY_HD uint16_t ToFp16Saturated(float x) {
  uint32_t magnitude = AbsBits(x);
  uint32_t h = ToFp16(x);
  return static_cast<uint16_t>((h & 0x7fffu) == 0x7c00u && magnitude < kInfBits ? h - 1u : h);
}

// A block's scale: what is stored, its value, and the factor that encodes with it.
struct BlockScale {
  uint16_t stored;
  float scale;
  float inverse;
};

// From the largest |bits| of a block. reciprocal_q = fl(1/Q), Q the largest code.
// Zero block: scale 0, inverse 0. Non-finite block: scale NaN, inverse 0, so that every code is 0.
CAUSEWAY_HD BlockScale MakeScale(uint32_t absmax_bits, float reciprocal_q) {
  BlockScale result;
  result.stored = ToBf16Up(FromBits(absmax_bits) * reciprocal_q);
  result.stored = absmax_bits < kTinyBits ? uint16_t{0} : result.stored;
  result.stored = absmax_bits >= kHugeBits ? kCanonicalNanBf16 : result.stored;
  result.scale = FromBf16(result.stored);
  bool codes = absmax_bits >= kTinyBits && absmax_bits < kHugeBits;
  result.inverse = codes ? 1.0f / result.scale : 0.0f;
  return result;
}

// Round to nearest even, then clamp to [-q, q]. Adding 1.5 x 2^23 leaves the integer in the low
// bits of the sum; anything outside +-2^22 (a value that changed while it was encoded) ends at the
// clamp.
CAUSEWAY_HD int32_t RoundClamp(float y, int32_t q) {
  int32_t r = static_cast<int32_t>(Bits(y + 12582912.0f) - 0x4b400000u);
  r = r > q ? q : r;
  return r < -q ? -q : r;
}

// A stateless 32-bit hash of (seed, element index): the dither of stochastic rounding.
CAUSEWAY_HD uint32_t Dither(uint32_t seed, uint32_t index) {
  uint32_t h = index * 0x9e3779b1u + seed;
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

// Rounds down after adding a uniform number in [0, 1): the expected value is y. Then clamps.
CAUSEWAY_HD int32_t RoundStochastic(float y, int32_t q, uint32_t seed, uint32_t index) {
  float uniform = static_cast<float>(static_cast<int32_t>(Dither(seed, index) >> 8)) * 0x1p-24f;
  int32_t nearest = RoundClamp(y, q);
  float fraction = y - static_cast<float>(nearest);  // exact, in [-0.5, 0.5]
  int32_t below = fraction < 0.0f ? nearest - 1 : nearest;
  float up = fraction < 0.0f ? fraction + 1.0f : fraction;
  int32_t r = below + (uniform < up ? 1 : 0);
  r = r > q ? q : r;
  return r < -q ? -q : r;
}

}  // namespace causeway::compression::math

#endif  // CAUSEWAY_COMPRESSION_BLOCK_MATH_H_
