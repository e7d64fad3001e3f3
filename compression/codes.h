// The codecs that scale a block by its largest magnitude: how each turns a scaled value into a code
// and a code into a unit value. Shared by every CPU unit and by the CUDA kernels (see
// block_math.h).
//
// Each codec is a struct of
//   kBits, kScaleBytes          sizes of a code and of a block's scale
//   Scale(absmax_bits)          what is stored for a block, its value, and the factor that encodes
//   with it StoredScale(stored)         the value of a stored scale Code(y)                     y =
//   fl(v * inverse)  ->  code in [0, 2^kBits) Unit(code)                  the decoded value is
//   fl(Unit(code) * scale)
// Code 0 is the value 0 in every one of them. Codes are clamped: y may be anything.
#ifndef CAUSEWAY_COMPRESSION_CODES_H_
#define CAUSEWAY_COMPRESSION_CODES_H_

#include <cstdint>

#include "compression/block_math.h"

namespace causeway::compression::math {

// Symmetric integers, two's complement.
template <int kIntegerBits>
struct IntegerCode {
  static constexpr int kBits = kIntegerBits;
  static constexpr int kScaleBytes = 2;
  static constexpr int32_t kMax = (1 << (kBits - 1)) - 1;  // 127 or 7
  static constexpr uint32_t kMask = (1u << kBits) - 1;
  static constexpr float kReciprocal = 1.0f / static_cast<float>(kMax);

  CAUSEWAY_HD BlockScale Scale(uint32_t absmax) { return MakeScale(absmax, kReciprocal); }
  CAUSEWAY_HD float StoredScale(uint32_t stored) { return FromBf16(static_cast<uint16_t>(stored)); }
  CAUSEWAY_HD uint32_t Code(float y) { return static_cast<uint32_t>(RoundClamp(y, kMax)) & kMask; }
  CAUSEWAY_HD uint32_t CodeStochastic(float y, uint32_t seed, uint32_t index) {
    return static_cast<uint32_t>(RoundStochastic(y, kMax, seed, index)) & kMask;
  }
  CAUSEWAY_HD float Unit(uint32_t code) {
    constexpr uint32_t kSign = 1u << (kBits - 1);
    return static_cast<float>(static_cast<int32_t>((code & kMask) ^ kSign) -
                              static_cast<int32_t>(kSign));
  }
};

// The sixteen quantiles of NF4 (QLoRA), rotated so that code 0 is 0: codes 1..8 are positive, 9..15
// are the values from -1 up.
#define CAUSEWAY_NF4_VALUES                                                                       \
  {                                                                                               \
    0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, \
        0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f, -1.0f,              \
        -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, \
        -0.18477343022823334f, -0.09105003625154495f                                              \
  }
// Midpoints between neighbours in ascending order, rounded to fp32; above one means the larger
// value.
#define CAUSEWAY_NF4_MIDPOINTS                                                          \
  {                                                                                     \
    -0.84809643f, -0.61063293f, -0.45999527f, -0.33967945f, -0.23460741f, -0.13791174f, \
        -0.04552502f, 0.03979015f, 0.12025525f, 0.20352125f, 0.29201376f, 0.38931254f,  \
        0.50166345f, 0.64278692f, 0.86147845f                                           \
  }

struct Nf4Code {
  static constexpr int kBits = 4;
  static constexpr int kScaleBytes = 2;

  CAUSEWAY_HD BlockScale Scale(uint32_t absmax) { return MakeScale(absmax, 1.0f); }
  CAUSEWAY_HD float StoredScale(uint32_t stored) { return FromBf16(static_cast<uint16_t>(stored)); }
  CAUSEWAY_HD uint32_t Code(float y) {
    constexpr float kMidpoints[15] = CAUSEWAY_NF4_MIDPOINTS;
    uint32_t rank = 0;  // among the ascending values; 7 is 0
    for (int k = 0; k < 15; ++k) rank += y > kMidpoints[k] ? 1u : 0u;
    return (rank + 9u) & 15u;
  }
  CAUSEWAY_HD float Unit(uint32_t code) {
    constexpr float kValues[16] = CAUSEWAY_NF4_VALUES;
    return kValues[code & 15u];
  }
};

// fp8 e4m3 (OCP, finite only): 1 sign, 4 exponent, 3 mantissa bits; largest 448. The pattern that
// OCP calls NaN is never written and reads as 480.
struct Fp8Code {
  static constexpr int kBits = 8;
  static constexpr int kScaleBytes = 2;
  static constexpr float kReciprocal = 1.0f / 448.0f;

  CAUSEWAY_HD BlockScale Scale(uint32_t absmax) { return MakeScale(absmax, kReciprocal); }
  CAUSEWAY_HD float StoredScale(uint32_t stored) { return FromBf16(static_cast<uint16_t>(stored)); }
  CAUSEWAY_HD uint32_t Code(float y) {
    uint32_t bits = Bits(y);
    uint32_t magnitude = bits & 0x7fffffffu;
    magnitude = magnitude > 0x43e00000u ? 0x43e00000u : magnitude;  // 448
    uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
    // 2^14 has steps of 2^-9, the spacing of e4m3's subnormals: the addition rounds.
    uint32_t subnormal = Bits(FromBits(magnitude) + 16384.0f) - 0x46800000u;
    uint32_t code = magnitude < 0x3c800000u ? subnormal : normal;  // 2^-6
    return code | ((bits >> 24) & 0x80u);
  }
  CAUSEWAY_HD float Unit(uint32_t code) {
    // e4m3 bits placed as those of an fp32 with a small exponent, then scaled by 2^120: exact.
    uint32_t shifted = (code & 0x7fu) << 20;
    uint32_t normal = shifted + (120u << 23);
    uint32_t subnormal = Bits(FromBits(shifted + (121u << 23)) - FromBits(121u << 23));
    uint32_t magnitude = (code & 0x78u) == 0 ? subnormal : normal;
    return FromBits(magnitude | (code & 0x80u) << 24);
  }
};

// MXFP4 (OCP microscaling): e2m1 values 0, .5, 1, 1.5, 2, 3, 4, 6 with a sign, times a power of
// two.
struct Mxfp4Code {
  static constexpr int kBits = 4;
  static constexpr int kScaleBytes = 1;

  // Stored: the exponent plus 127 (E8M0); 0 marks a zero block, 255 a non-finite one.
  CAUSEWAY_HD BlockScale Scale(uint32_t absmax) {
    BlockScale result;
    bool codes = absmax >= kTinyBits && absmax < kHugeBits;
    uint32_t stored = (absmax >> 23) - 2u;
    stored = absmax < kTinyBits ? 0u : stored;
    stored = absmax >= kHugeBits ? 255u : stored;
    result.stored = static_cast<uint16_t>(stored);
    result.scale = StoredScale(stored);
    result.inverse = codes ? FromBits((254u - stored) << 23) : 0.0f;
    return result;
  }
  CAUSEWAY_HD float StoredScale(uint32_t stored) {
    return FromBits(stored == 255u ? kCanonicalNan : stored << 23);
  }
  CAUSEWAY_HD uint32_t Code(float y) {
    uint32_t bits = Bits(y);
    uint32_t magnitude = bits & 0x7fffffffu;
    magnitude = magnitude > 0x40c00000u ? 0x40c00000u : magnitude;  // 6
    uint32_t normal = (magnitude - (126u << 23) + 0x1fffffu + ((magnitude >> 22) & 1u)) >> 22;
    uint32_t subnormal = Bits(FromBits(magnitude) + 4194304.0f) - 0x4a800000u;  // steps of .5
    uint32_t code = magnitude < 0x3f800000u ? subnormal : normal;
    return code | ((bits >> 28) & 8u);
  }
  CAUSEWAY_HD float Unit(uint32_t code) {
    uint32_t magnitude = code & 7u;
    uint32_t bits = magnitude < 2u ? magnitude * 0x3f000000u : (magnitude << 22) + (126u << 23);
    return FromBits(bits | (code & 8u) << 28);
  }
};

// E3M0 (as Streaming DiLoCo sends it): a sign and 0 or a power of two from 2^-6 to 1.
struct E3m0Code {
  static constexpr int kBits = 4;
  static constexpr int kScaleBytes = 2;

  CAUSEWAY_HD BlockScale Scale(uint32_t absmax) { return MakeScale(absmax, 1.0f); }
  CAUSEWAY_HD float StoredScale(uint32_t stored) { return FromBf16(static_cast<uint16_t>(stored)); }
  CAUSEWAY_HD uint32_t Code(float y) {
    uint32_t bits = Bits(y);
    uint32_t magnitude = bits & 0x7fffffffu;
    magnitude = magnitude > 0x3f800000u ? 0x3f800000u : magnitude;
    uint32_t exponent = (magnitude + 0x400000u) >> 23;  // 1.5 x a power of two goes up
    uint32_t code = exponent < 121u ? 1u : exponent - 120u;
    code = magnitude < 0x3c000000u ? 0u : code;  // below half of 2^-6
    return code | ((bits >> 28) & 8u);
  }
  CAUSEWAY_HD float Unit(uint32_t code) {
    uint32_t magnitude = code & 7u;
    uint32_t bits = magnitude == 0u ? 0u : (magnitude + 120u) << 23;
    return FromBits(bits | (code & 8u) << 28);
  }
};

}  // namespace causeway::compression::math

#endif  // CAUSEWAY_COMPRESSION_CODES_H_
