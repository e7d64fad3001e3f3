// Applying results: carry is exact without delay, keeps local work with it, and casts once.
#include "client/shim/merge.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "client/include/causeway.h"
#include "client/shim/number.h"

namespace causeway::client {
namespace {

constexpr uint64_t kCount = 5000;
constexpr uint64_t kSeed = 20240;

std::vector<float> Random(uint64_t seed, float scale) {
  std::mt19937_64 generator(seed);
  std::vector<float> values(kCount);
  for (float& value : values) {
    value = scale * (static_cast<float>(generator() >> 40) / 8388608.0f - 1.0f);
  }
  return values;
}

std::vector<uint16_t> Halves(const std::vector<float>& values, uint8_t dtype) {
  std::vector<uint16_t> halves(values.size());
  Cast(values.data(), values.size(), dtype, halves.data());
  return halves;
}

float Load(uint16_t half, uint8_t dtype) {
  return dtype == CW_BF16 ? FromBf16(half) : FromFp16(half);
}
uint16_t Store(float value, uint8_t dtype) {
  return dtype == CW_BF16 ? ToBf16(value) : ToFp16(value);
}

TEST_CASE("carry without delay gives exactly the new value") {
  INFO("seed " << kSeed);
  const std::vector<float> fresh = Random(kSeed, 3.0f), sent = Random(kSeed + 1, 1e-3f);
  std::vector<float> now = sent;
  MergeSpan span;
  span.count = kCount;
  span.fresh = fresh.data();
  span.now = now.data();
  span.sent = sent.data();
  span.out = now.data();
  Merge(Rule::kCarrySent, span);
  REQUIRE(now == fresh);
}

TEST_CASE("carry with delay adds what was trained after the snapshot, in fp32 operations") {
  INFO("seed " << kSeed);
  const std::vector<float> fresh = Random(kSeed, 3.0f), sent = Random(kSeed + 1, 2.0f);
  const std::vector<float> now = Random(kSeed + 2, 2.0f);
  std::vector<float> out(kCount);
  MergeSpan span;
  span.count = kCount;
  span.fresh = fresh.data();
  span.now = now.data();
  span.sent = sent.data();
  span.out = out.data();
  Merge(Rule::kCarrySent, span);
  for (uint64_t i = 0; i < kCount; ++i) {
    const volatile float moved = now[i] - sent[i];
    const volatile float expected = fresh[i] + moved;
    REQUIRE(out[i] == expected);
  }
}

TEST_CASE("an excluded contribution is carried against the base as it was delivered") {
  for (uint8_t dtype : {CW_BF16, CW_FP16}) {
    INFO("seed " << kSeed << " dtype " << int{dtype});
    const std::vector<float> fresh = Random(kSeed, 3.0f), base = Random(kSeed + 1, 2.0f);
    // Nothing was trained: the parameters are the base's cast, so the result is the cast of the new
    // value.
    std::vector<uint16_t> now = Halves(base, dtype);
    MergeSpan span;
    span.dtype = dtype;
    span.count = kCount;
    span.fresh = fresh.data();
    span.now = now.data();
    span.base = base.data();
    span.out = now.data();
    Merge(Rule::kCarryBase, span);
    for (uint64_t i = 0; i < kCount; ++i) REQUIRE(now[i] == Store(fresh[i], dtype));
  }
}

TEST_CASE("16-bit tensors merge in fp32 and are rounded once") {
  for (uint8_t dtype : {CW_BF16, CW_FP16}) {
    INFO("seed " << kSeed << " dtype " << int{dtype});
    const std::vector<float> fresh = Random(kSeed, 3.0f);
    const std::vector<uint16_t> sent = Halves(Random(kSeed + 1, 2.0f), dtype);
    const std::vector<uint16_t> now = Halves(Random(kSeed + 2, 2.0f), dtype);
    std::vector<uint16_t> out(kCount);
    MergeSpan span;
    span.dtype = dtype;
    span.count = kCount;
    span.fresh = fresh.data();
    span.now = now.data();
    span.sent = sent.data();
    span.out = out.data();
    span.mix = 0.25f;
    Merge(Rule::kCarrySent, span);
    for (uint64_t i = 0; i < kCount; ++i) {
      REQUIRE(out[i] == Store(fresh[i] + (Load(now[i], dtype) - Load(sent[i], dtype)), dtype));
    }
    Merge(Rule::kMix, span);
    for (uint64_t i = 0; i < kCount; ++i) {
      const float kept = 0.25f * Load(now[i], dtype);
      REQUIRE(out[i] == Store(0.75f * fresh[i] + kept, dtype));
    }
    Merge(Rule::kReplace, span);
    for (uint64_t i = 0; i < kCount; ++i) REQUIRE(out[i] == Store(fresh[i], dtype));
  }
}

TEST_CASE("a master's model copy is the cast of the stored master") {
  INFO("seed " << kSeed);
  const std::vector<float> fresh = Random(kSeed, 3.0f), sent = Random(kSeed + 1, 2.0f);
  const std::vector<float> start = Random(kSeed + 2, 2.0f);
  for (uint8_t cast_dtype : {CW_FP32, CW_BF16, CW_FP16}) {
    std::vector<float> master = start;
    std::vector<float> model(kCount);  // room for any dtype
    MergeSpan span;
    span.cast_dtype = cast_dtype;
    span.count = kCount;
    span.fresh = fresh.data();
    span.now = master.data();
    span.sent = sent.data();
    span.out = master.data();
    span.cast = model.data();
    Merge(Rule::kCarrySent, span);
    std::vector<float> expected(kCount);
    Cast(master.data(), kCount, cast_dtype, expected.data());
    REQUIRE(model == expected);
    for (uint64_t i = 0; i < kCount; ++i) REQUIRE(master[i] == fresh[i] + (start[i] - sent[i]));
  }
}

}  // namespace
}  // namespace causeway::client
