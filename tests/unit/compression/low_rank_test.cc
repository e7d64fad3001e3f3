// Low-rank factors: what they promise about error, residual, order of operations and hostile bytes.
#include "compression/low_rank.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/block_math.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

struct Coded {
  std::vector<uint16_t> factors;
  std::vector<float> residual;
  std::vector<float> decoded;
  bool finite = false;
};

Coded Encode(const LowRankShape& shape, const std::vector<float>& values,
             std::vector<float>* warm) {
  Coded coded;
  coded.factors.resize(shape.factor_elements());
  coded.residual.resize(shape.elements());
  coded.finite = LowRankEncode(shape, values, absl::MakeSpan(*warm), absl::MakeSpan(coded.factors),
                               absl::MakeSpan(coded.residual));
  bool nonfinite = false;
  REQUIRE(CheckLowRank(shape, coded.factors, &nonfinite).ok());
  CHECK(nonfinite == !coded.finite);
  coded.decoded.resize(shape.elements());
  LowRankAccumulate(shape, coded.factors, 1.0f, absl::MakeSpan(coded.decoded));
  return coded;
}

std::vector<float> Start(const LowRankShape& shape) {
  std::vector<float> warm(shape.warm_elements());
  LowRankStart(shape, absl::MakeSpan(warm));
  return warm;
}

// A matrix of exactly this rank, with some noise.
std::vector<float> OfRank(const LowRankShape& shape, uint32_t rank, uint64_t seed, double noise) {
  const std::vector<float> left = samples::Noise(shape.rows * rank, seed, 1.0);
  const std::vector<float> right = samples::Noise(shape.columns * rank, seed + 1, 1.0);
  std::vector<float> values = samples::Noise(shape.rows * shape.columns, seed + 2, noise);
  for (uint32_t i = 0; i < shape.rows; ++i) {
    for (uint32_t j = 0; j < shape.columns; ++j) {
      for (uint32_t k = 0; k < rank; ++k) {
        values[i * shape.columns + j] += left[i * rank + k] * right[j * rank + k];
      }
    }
  }
  return values;
}

TEST_CASE("a matrix of the rank that is sent comes back to the precision of the factors") {
  for (const LowRankShape& shape :
       {LowRankShape{70, 50, 3}, LowRankShape{33, 200, 3}, LowRankShape{3, 9, 3},
        LowRankShape{1, 40, 1}, LowRankShape{40, 1, 1}, LowRankShape{1, 1, 1}}) {
    CAPTURE(shape.rows, shape.columns);
    const uint32_t rank = std::min({shape.rank, shape.rows, shape.columns});
    const std::vector<float> values = OfRank(shape, rank, 5, 0);
    std::vector<float> warm = Start(shape);
    CHECK(samples::RelativeL2(values, Encode(shape, values, &warm).decoded) < 0.006);
  }
}

TEST_CASE("residual and decoded value add up, and the warm start follows") {
  const LowRankShape shape{96, 64, 4};
  std::vector<float> warm = Start(shape);
  std::vector<double> errors;
  for (int round = 0; round < 4; ++round) {
    const std::vector<float> values = OfRank(shape, 6, 11, 0.3);
    const Coded coded = Encode(shape, values, &warm);
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(coded.residual[i] == values[i] - coded.decoded[i]);
    }
    errors.push_back(samples::RelativeL2(values, coded.decoded));
  }
  CAPTURE(errors);
  CHECK(errors[1] <= errors[0]);
  CHECK(errors[3] <= errors[0]);
  CHECK(errors[3] < 0.8);
}

TEST_CASE("error feedback sends in the end what one round leaves out") {
  const LowRankShape shape{48, 40, 2};
  const std::vector<float> values = samples::Noise(48 * 40, 3, 1.0);  // of full rank
  std::vector<float> warm = Start(shape);
  std::vector<float> residual(shape.elements());
  std::vector<float> sum(shape.elements());
  std::vector<float> truth(shape.elements());
  constexpr int kRounds = 60;
  double first = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> with(values);
    for (size_t i = 0; i < with.size(); ++i) with[i] += residual[i];
    const Coded coded = Encode(shape, with, &warm);
    residual = coded.residual;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += coded.decoded[i];
      truth[i] += values[i];
    }
    if (round == 0) first = samples::RelativeL2(truth, sum);
  }
  CAPTURE(first);
  CHECK(first > 0.7);
  CHECK(samples::RelativeL2(truth, sum) < 0.4 * first);
}

TEST_CASE("sums run over the rank in order, each step rounded") {
  const LowRankShape shape{5, 7, 3};
  std::vector<float> warm = Start(shape);
  const Coded coded = Encode(shape, samples::Noise(35, 8, 1.0), &warm);
  std::vector<float> acc = samples::Noise(35, 9, 1.0);
  const std::vector<float> before = acc;
  LowRankAccumulate(shape, coded.factors, -1.7f, absl::MakeSpan(acc));
  for (uint32_t i = 0; i < 5; ++i) {
    for (uint32_t j = 0; j < 7; ++j) {
      volatile float d = 0.0f;
      for (uint32_t k = 0; k < 3; ++k) {
        volatile float product = math::FromBf16(coded.factors[i * 3 + k]) *
                                 math::FromBf16(coded.factors[15 + j * 3 + k]);
        d = d + product;
      }
      volatile float weighted = -1.7f * d;
      CHECK(acc[i * 7 + j] == before[i * 7 + j] + weighted);
    }
  }
}

TEST_CASE("zero, constant and non-finite matrices") {
  const LowRankShape shape{20, 30, 4};
  std::vector<float> warm = Start(shape);
  const std::vector<float> started = warm;
  const Coded zero = Encode(shape, std::vector<float>(600, 0.0f), &warm);
  CHECK(zero.decoded == std::vector<float>(600, 0.0f));
  CHECK(warm == started);  // or every later round would send zeros
  const Coded constant = Encode(shape, std::vector<float>(600, 0.125f), &warm);
  CHECK(samples::RelativeL2(std::vector<float>(600, 0.125f), constant.decoded) < 0.006);
  for (float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
    std::vector<float> values = samples::Noise(600, 4);
    values[123] = bad;
    const std::vector<float> kept = warm;
    const Coded coded = Encode(shape, values, &warm);
    CHECK_FALSE(coded.finite);
    CHECK(coded.residual == std::vector<float>(600, 0.0f));
    CHECK(warm == kept);
    CHECK(math::Bits(coded.decoded[0]) == math::kCanonicalNan);
  }
}

TEST_CASE("factors from a peer are checked") {
  const LowRankShape shape{6, 5, 2};
  bool nonfinite = false;
  std::vector<uint16_t> factors(22, 0x3f80);
  CHECK(CheckLowRank(shape, factors, &nonfinite).ok());
  CHECK_FALSE(nonfinite);
  for (uint16_t bad : {0x7f80, 0xff80, 0x7fc1, 0xffc0, 0x7fc0, 0x3f81, 0xbf81}) {
    factors[7] = bad;
    CHECK_FALSE(CheckLowRank(shape, factors, &nonfinite).ok());
  }
  factors.assign(22, 0x3f80);
  factors[21] = 0x7b80;  // of Q
  CHECK(CheckLowRank(shape, factors, &nonfinite).ok());
  factors[21] = 0x7b81;
  CHECK_FALSE(CheckLowRank(shape, factors, &nonfinite).ok());
  factors.assign(22, math::kCanonicalNanBf16);
  CHECK(CheckLowRank(shape, factors, &nonfinite).ok());
  CHECK(nonfinite);
  factors.resize(21);
  CHECK_FALSE(CheckLowRank(shape, factors, &nonfinite).ok());
  for (const LowRankShape& wrong :
       {LowRankShape{0, 5, 1}, LowRankShape{5, 0, 1}, LowRankShape{5, 5, 0}, LowRankShape{5, 9, 6},
        LowRankShape{100, 100, 65}, LowRankShape{kLowRankSideMax + 1, 5, 1}}) {
    CHECK_FALSE(ValidateLowRank(wrong).ok());
  }
}

TEST_CASE("a real gradient's matrix: rank buys accuracy") {
  const LowRankShape narrow{208, 192, 4};  // of te.weight, the first tensor of the dump
  std::vector<float> values = samples::ReadSlice("gradient_slice.f32");
  values.resize(narrow.elements());
  double last = 1;
  for (uint32_t rank : {4u, 16u, 48u}) {
    LowRankShape shape = narrow;
    shape.rank = rank;
    std::vector<float> warm = Start(shape);
    Encode(shape, values, &warm);
    const double error = samples::RelativeL2(values, Encode(shape, values, &warm).decoded);
    CAPTURE(rank, error);
    CHECK(error < 0.75 * last);
    last = error;
  }
}

}  // namespace
}  // namespace causeway::compression
