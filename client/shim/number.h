// Conversions between fp32 and the two 16-bit types: round to nearest, ties to even; NaN stays NaN
// (quiet).
//
// Integer arithmetic only, so every compiler and machine gives the same bits. Any thread.
#pragma once

#include <cstdint>
#include <cstring>

namespace causeway::client {

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float FromBf16(uint16_t half) { return FloatOf(static_cast<uint32_t>(half) << 16); }

inline uint16_t ToBf16(float value) {
  const uint32_t bits = BitsOf(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000u : rounded) >> 16);
}

inline float FromFp16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return FloatOf(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x0400u) return FloatOf(sign | ((magnitude << 13) + 0x38000000u));
  // Zero or subnormal: a multiple of 2^-24, exact in fp32.
  return FloatOf(sign | BitsOf(static_cast<float>(magnitude) * 0x1p-24f));
}

inline uint16_t ToFp16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return sign | 0x7e00u | static_cast<uint16_t>((magnitude >> 13) & 0x3ffu);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude >= 0x38800000u) {                       // 2^-14: normal
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
  }
  // Below 2^-14 the unit is 2^-24: adding 0.5 aligns it with fp32's last bit, which rounds to even.
  return sign | static_cast<uint16_t>(BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f));
}

}  // namespace causeway::client
