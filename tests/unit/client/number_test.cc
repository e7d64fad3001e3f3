// 16-bit conversions against definitions that are written differently: exact values and nearest
// neighbours.
#include "client/shim/number.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace causeway::client {
namespace {

// By the definition of IEEE 754 binary16.
double Fp16Value(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double fraction = (half & 1023) / 1024.0;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return (half & 1023) != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  return sign * std::ldexp(1 + fraction, exponent - 15);
}

bool IsNan16(uint16_t half, uint16_t infinity) { return (half & 0x7fff) > infinity; }

TEST_CASE("every fp16 and bf16 value survives the way to fp32 and back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (IsNan16(half, 0x7c00)) {
      REQUIRE(std::isnan(FromFp16(half)));
      REQUIRE(IsNan16(ToFp16(FromFp16(half)), 0x7c00));
    } else {
      REQUIRE(static_cast<double>(FromFp16(half)) == Fp16Value(half));
      REQUIRE(ToFp16(FromFp16(half)) == half);
    }
    if (IsNan16(half, 0x7f80)) {
      REQUIRE(std::isnan(FromBf16(half)));
      REQUIRE(IsNan16(ToBf16(FromBf16(half)), 0x7f80));
    } else {
      REQUIRE(ToBf16(FromBf16(half)) == half);
    }
  }
}

TEST_CASE(
    "halfway between two fp16 or bf16 values rounds to the even one, beside it to the nearer") {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const auto middle =
        static_cast<float>((Fp16Value(low) + Fp16Value(high)) / 2);  // exact in fp32
    const uint16_t even = low % 2 == 0 ? low : high;
    REQUIRE(ToFp16(middle) == even);
    REQUIRE(ToFp16(-middle) == (even | 0x8000));
    REQUIRE(ToFp16(std::nextafter(middle, 0.0f)) == low);
    REQUIRE(ToFp16(std::nextafter(middle, INFINITY)) == high);
  }
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float middle = FloatOf((bits << 16) + 0x8000);
    REQUIRE(ToBf16(middle) == (low % 2 == 0 ? low : high));
    REQUIRE(ToBf16(FloatOf((bits << 16) + 0x7fff)) == low);
    REQUIRE(ToBf16(FloatOf((bits << 16) + 0x8001)) == high);
  }
}

TEST_CASE("beyond the largest value is infinity, and infinity stays") {
  REQUIRE(ToFp16(65504.0f) == 0x7bff);
  REQUIRE(ToFp16(std::nextafter(65520.0f, 0.0f)) == 0x7bff);
  REQUIRE(ToFp16(65520.0f) == 0x7c00);
  REQUIRE(ToFp16(-INFINITY) == 0xfc00);
  REQUIRE(ToBf16(std::numeric_limits<float>::max()) == 0x7f80);
  REQUIRE(ToBf16(INFINITY) == 0x7f80);
  REQUIRE(ToFp16(std::numeric_limits<float>::denorm_min()) == 0);
  REQUIRE(
      IsNan16(ToFp16(FloatOf(0x7f800001)), 0x7c00));  // a NaN whose payload lies in the lost bits
  REQUIRE(IsNan16(ToBf16(FloatOf(0x7f800001)), 0x7f80));
}

}  // namespace
}  // namespace causeway::client
