// Casts over every half-precision value, checksums against known answers, outer updates against
// plain loops.
#include "compression/vector.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/block_math.h"
#include "compression/kernels/kernels.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

std::vector<const KernelTable*> Units() {
  std::vector<const KernelTable*> units;
  for (Isa isa : kIsas) {
    if (const KernelTable* unit = KernelsFor(isa)) units.push_back(unit);
  }
  return units;
}

TEST_CASE("every fp16 and bf16 value survives a round trip") {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  std::vector<uint16_t> back(all.size());
  for (DType dtype : {DType::kFp16, DType::kBf16}) {
    CastToFp32(all.data(), all.size(), dtype, wide.data());
    CastFromFp32(wide.data(), wide.size(), dtype, back.data());
    const uint16_t infinity = dtype == DType::kFp16 ? 0x7c00 : 0x7f80;
    const uint16_t nan = dtype == DType::kFp16 ? 0x7e00 : 0x7fc0;
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      bool is_nan = (all[i] & 0x7fff) > infinity;
      if (back[i] != (is_nan ? nan : all[i])) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

// Exact by construction: the neighbours of x among the fp16 values, compared in double.
TEST_CASE("casts round to nearest, ties to even") {
  samples::Random random(17);
  size_t wrong = 0;
  for (int k = 0; k < 200000; ++k) {
    float x = math::FromBits(static_cast<uint32_t>(random.Next()));
    if (k % 2 == 0) {  // exponents around fp16's range, often exact ties
      uint32_t mantissa =
          static_cast<uint32_t>(random.Next()) & (k % 4 == 0 ? 0x7ff000u : 0x7fffffu);
      x = math::FromBits((100u + static_cast<uint32_t>(random.Next() % 45)) << 23 | mantissa);
    }
    if (!(std::fabs(x) <= 65504.0f)) continue;
    uint16_t h = math::ToFp16(x);
    double value = math::FromFp16(h);
    double here = std::fabs(value - x);
    uint16_t magnitude = h & 0x7fff;
    for (int step : {-1, 1}) {
      if (magnitude == 0 && step < 0) continue;
      uint16_t other = static_cast<uint16_t>((h & 0x8000) | (magnitude + step));
      if ((other & 0x7fff) >= 0x7c00) continue;
      double there = std::fabs(static_cast<double>(math::FromFp16(other)) - x);
      if (there < here || (there == here && (h & 1) != 0)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(math::ToFp16(65519.996f) == 0x7bff);
  CHECK(math::ToFp16(65520.0f) == 0x7c00);
  CHECK(math::ToBf16(math::FromBits(0x3f808000u)) == 0x3f80);
  CHECK(math::ToBf16(math::FromBits(0x3f818000u)) == 0x3f82);
}

TEST_CASE("crc32c gives the known answers in every unit") {
  for (const KernelTable* unit : Units()) {
    CAPTURE(unit->name);
    const uint8_t* digits = reinterpret_cast<const uint8_t*>("123456789");
    CHECK(unit->crc32c(0, digits, 9) == 0xe3069283u);
    std::vector<uint8_t> zeros(32, 0);
    CHECK(unit->crc32c(0, zeros.data(), 32) == 0x8a9136aau);
    std::vector<uint8_t> bytes(20000);
    samples::Random random(3);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.Next());
    for (size_t size : {0, 1, 7, 8, 1023, 3071, 3072, 3073, 6144, 9999, 20000}) {
      uint32_t whole = unit->crc32c(0, bytes.data(), size);
      CHECK(whole == KernelsFor(Isa::kGeneric)->crc32c(0, bytes.data(), size));
      uint32_t part = unit->crc32c(0, bytes.data(), size / 3);
      CHECK(unit->crc32c(part, bytes.data() + size / 3, size - size / 3) == whole);
    }
  }
}

TEST_CASE("the content hash is one function, and notices every bit") {
  std::vector<uint8_t> bytes(1000);
  samples::Random random(4);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.Next());
  for (size_t size : {0, 1, 63, 64, 65, 1000}) {
    uint64_t hash = ContentHash(absl::MakeConstSpan(bytes.data(), size));
    for (const KernelTable* unit : Units()) {
      CHECK(unit->content_hash(bytes.data(), size) == hash);
    }
    for (size_t i = 0; i < size; ++i) {
      bytes[i] ^= 0x80;
      CHECK(ContentHash(absl::MakeConstSpan(bytes.data(), size)) != hash);
      bytes[i] ^= 0x80;
    }
  }
  std::vector<uint8_t> zeros(64, 0);
  CHECK(ContentHash(absl::MakeConstSpan(zeros.data(), 63)) != ContentHash(zeros));
  std::vector<uint8_t> swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 64, swapped.begin() + 64);
  CHECK(ContentHash(swapped) != ContentHash(bytes));
}

TEST_CASE("outer updates are the written equations in every unit") {
  const size_t n = 1003;
  std::vector<float> theta = samples::Noise(n, 1, 0.02);
  std::vector<float> momentum = samples::Noise(n, 2);
  std::vector<float> d = samples::Noise(n, 3);
  d[7] = -std::nanf("");
  momentum[8] = INFINITY;
  d[8] = -INFINITY;
  std::vector<float> expected_theta = theta;
  std::vector<float> expected_momentum = momentum;
  for (size_t i = 0; i < n; ++i) {
    volatile float decayed = 0.5f * momentum[i];
    float u = math::Canonical(decayed + d[i]);
    volatile float ahead = 0.5f * u;
    volatile float direction = d[i] + ahead;
    volatile float step = 0.7f * direction;
    expected_momentum[i] = u;
    expected_theta[i] = math::Canonical(theta[i] - step);
  }
  for (const KernelTable* unit : Units()) {
    CAPTURE(unit->name);
    std::vector<float> t = theta;
    std::vector<float> u = momentum;
    unit->nesterov(t.data(), u.data(), d.data(), n, 0.7f, 0.5f);
    CHECK(std::memcmp(t.data(), expected_theta.data(), n * 4) == 0);
    CHECK(std::memcmp(u.data(), expected_momentum.data(), n * 4) == 0);
    CHECK(math::Bits(t[8]) == math::kCanonicalNan);

    // Limit: mu = 0, eta = 1 is the average.
    std::vector<float> a = theta;
    std::vector<float> b = theta;
    std::vector<float> zero(n, 0.0f);
    std::vector<float> finite = samples::Noise(n, 4);
    unit->nesterov(a.data(), zero.data(), finite.data(), n, 1.0f, 0.0f);
    unit->subtract(b.data(), finite.data(), n);
    CHECK(a == b);

    std::vector<float> scaled = finite;
    unit->scale(scaled.data(), n, 0.3f);
    for (size_t i = 0; i < n; ++i) REQUIRE(scaled[i] == finite[i] * 0.3f);
  }
}

TEST_CASE("non-finite values are found where they are") {
  std::vector<float> values = samples::Noise(10000, 5);
  CHECK(FirstNonFinite(values) == values.size());
  values[17] = 3e38f;  // huge, yet finite
  CHECK(FirstNonFinite(values) == values.size());
  values[9999] = INFINITY;
  CHECK(FirstNonFinite(values) == 9999);
  values[5000] = std::nanf("");
  CHECK(FirstNonFinite(values) == 5000);
  CHECK(FirstNonFinite({}) == 0);
}

TEST_CASE("threads of the tests keep subnormals") { CHECK(SubnormalsAreKept()); }

}  // namespace
}  // namespace causeway::compression
