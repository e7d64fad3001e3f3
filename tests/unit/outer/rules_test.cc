// Every rule against a float64 reference and golden vectors; the limits that must hold exactly.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "daemon/outer/outer_state.h"
#include "daemon/outer/rule.h"

namespace causeway::outer {
namespace {

using Kind = RuleSpec::Kind;
using Values = std::vector<float>;

constexpr uint32_t kChunk = 64;

// One fragment stepped through rounds, chunk by chunk, as the exchange does it.
class Course {
 public:
  Course(const RuleSpec& spec, Values start) : value_(std::move(start)) {
    auto budget = memory::Budget::Create(1 << 20);
    auto state = OuterState::Create({{value_.size(), spec}}, kChunk, *budget->Open("outer"));
    REQUIRE(state.ok());
    state_ = *std::move(state);
  }

  const Values& Step(const Values& mean) {
    state_->BeginRound(0, ++round_);
    Values next(value_.size());
    for (uint32_t chunk = 0; chunk * kChunk < value_.size(); ++chunk) {
      const size_t first = size_t{chunk} * kChunk;
      const size_t n = std::min<size_t>(kChunk, value_.size() - first);
      state_->StepChunk(0, chunk, absl::MakeConstSpan(value_).subspan(first, n),
                        absl::MakeConstSpan(mean).subspan(first, n),
                        absl::MakeSpan(next).subspan(first, n));
    }
    state_->EndRound(0);
    value_ = next;
    return value_;
  }

  const Values& value() const { return value_; }
  OuterState& state() { return *state_; }
  int64_t round() const { return round_; }

 private:
  std::unique_ptr<OuterState> state_;
  Values value_;
  int64_t round_ = 0;
};

Values Random(std::mt19937& random, size_t n, float scale) {
  std::normal_distribution<float> normal(0, scale);
  Values out(n);
  for (float& x : out) x = normal(random);
  return out;
}

RuleSpec Co2(double alpha, double beta) {
  RuleSpec spec;
  spec.kind = Kind::kCo2;
  spec.learning_rate = alpha;
  spec.momentum = beta;
  return spec;
}

TEST_CASE("sgd: signs and scaling") {
  RuleSpec spec{Kind::kSgd, 0.5};
  Course course(spec, {10, -4, 0});
  CHECK(course.Step({2, -8, 1}) == Values{9, 0, -0.5f});
  CHECK(course.state().Momentum(0, 0).empty());
}

TEST_CASE("co2: signs and scaling, two rounds by hand") {
  // m1 = 2, theta1 = 10 - .5 2 = 9;  m2 = .5 2 + 4 = 5, theta2 = 9 - .5 5 = 6.5
  Course course(Co2(0.5, 0.5), {10});
  CHECK(course.Step({2}) == Values{9});
  CHECK(course.Step({4}) == Values{6.5f});
  CHECK(course.state().Momentum(0, 0)[0] == 5.0f);
}

TEST_CASE("co2: the penalty divides the mean, not the momentum") {
  RuleSpec spec = Co2(1, 0.5);
  spec.penalty = 4;
  Course course(spec, {0});
  CHECK(course.Step({8}) == Values{-2});      // m = 2
  CHECK(course.Step({8}) == Values{-2 - 3});  // m = 1 + 2
}

TEST_CASE("co2: the clamp's result is the momentum, element by element") {
  RuleSpec spec = Co2(1, 1);
  spec.clip = 0.5;
  Course course(spec, {0, 0, 0});
  CHECK(course.Step({2, -2, 0.25f}) == Values{-0.5f, 0.5f, -0.25f});
  // Where the clamp's result was thrown away the momentum would be 2, and 2 rounds would not undo
  // it.
  CHECK(course.state().Momentum(0, 0)[0] == 0.5f);
  CHECK(course.Step({-0.5f, 0.5f, 0}) == Values{-0.5f, 0.5f, -0.5f});
  CHECK(course.state().Momentum(0, 0)[0] == 0.0f);
}

TEST_CASE("co2 with a gap-aware penalty follows its float64 reference") {
  std::mt19937 random(11);
  for (uint32_t window : {0u, 3u}) {
    RuleSpec spec = Co2(0.8, 0.6);
    spec.gap_penalty = true;
    spec.penalty_window = window;
    const size_t n = 150;
    Course course(spec, Random(random, n, 1));
    std::vector<double> theta(course.value().begin(), course.value().end());
    std::vector<double> m(n, 0);
    std::vector<double> before;
    double mean = 0;
    uint64_t norms = 0;
    for (int round = 1; round <= 40; ++round) {
      const Values d = Random(random, n, 0.01f * static_cast<float>(1 + round % 5));
      double penalty = 1;
      double gap = 0;
      if (!before.empty()) {
        for (size_t i = 0; i < n; ++i) gap += (theta[i] - before[i]) * (theta[i] - before[i]);
        gap = std::sqrt(gap);
        if (norms > 0) penalty = 1 + gap / mean;
        ++norms;
        const auto weight =
            static_cast<double>(window == 0 ? norms : std::min<uint64_t>(norms, window));
        mean += (gap - mean) / weight;
      }
      before = theta;
      for (size_t i = 0; i < n; ++i) {
        m[i] = 0.6 * m[i] + static_cast<double>(d[i]) / penalty;
        theta[i] -= 0.8 * m[i];
      }
      course.Step(d);
      if (round == 2) CHECK(penalty == 1);  // until there is a C
      if (round > 3) CHECK(penalty > 1.05);
    }
    for (size_t i = 0; i < n; ++i) REQUIRE(course.value()[i] == Approx(theta[i]).margin(1e-5));
  }
}

TEST_CASE("limit: co2 with beta 0, L 1, alpha 1 and no clip is average") {
  std::mt19937 random(12);
  const Values start = Random(random, 100, 1);
  Course co2(Co2(1, 0), start);
  Course average({Kind::kAverage}, start);
  for (int round = 0; round < 10; ++round) {
    const Values d = Random(random, 100, 0.1f);
    REQUIRE(co2.Step(d) == average.Step(d));
  }
}

TEST_CASE("limit: sgd with eta 1 is average, and nesterov with mu 0 is sgd") {
  std::mt19937 random(13);
  const Values start = Random(random, 100, 1);
  Course one({Kind::kSgd, 1.0}, start);
  Course average({Kind::kAverage}, start);
  Course sgd({Kind::kSgd, 0.7}, start);
  Course nesterov({Kind::kNesterov, 0.7, 0.0}, start);
  for (int round = 0; round < 10; ++round) {
    const Values d = Random(random, 100, 0.1f);
    REQUIRE(one.Step(d) == average.Step(d));
    REQUIRE(sgd.Step(d) == nesterov.Step(d));
  }
}

TEST_CASE("a scheduled learning rate goes in a straight line, then stays") {
  RuleSpec spec{Kind::kSgd, 1.0};
  spec.final_learning_rate = 0.5;
  spec.schedule_rounds = 3;
  Course course(spec, {0});
  CHECK(course.Step({1}) == Values{-1});
  CHECK(course.Step({1}) == Values{-1.75f});
  CHECK(course.Step({1}) == Values{-2.25f});
  CHECK(course.Step({1}) == Values{-2.75f});
  spec.schedule_rounds = 1;  // at once
  Course sudden(spec, {0});
  CHECK(sudden.Step({1}) == Values{-1});
  CHECK(sudden.Step({1}) == Values{-1.5f});
  spec.kind = Kind::kNesterov;
  spec.momentum = 0.5;
  spec.schedule_rounds = 2;
  Course nesterov(spec, {0});
  nesterov.Step({1});                       // u = 1, theta = -(1 + .5)
  CHECK(nesterov.Step({0})[0] == -1.625f);  // u = .5, theta -= .5 (.5 .5)
}

TEST_CASE("what a gap-aware rule remembers is part of the state's hash, and moves with it") {
  RuleSpec spec = Co2(0.8, 0.6);
  spec.gap_penalty = true;
  std::mt19937 random(14);
  Course donor(spec, Random(random, 100, 1));
  for (int round = 0; round < 4; ++round) donor.Step(Random(random, 100, 0.1f));
  const std::vector<engine::Hash64> words = donor.state().Words(0);
  REQUIRE(words.size() == 3);
  const engine::Hash256 hash = donor.state().StateHash(0);

  Course joiner(spec, donor.value());
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    const auto from = donor.state().Momentum(0, chunk);
    std::copy(from.begin(), from.end(), joiner.state().Momentum(0, chunk).begin());
    joiner.state().HashChunk(
        0, chunk, absl::MakeConstSpan(donor.value()).subspan(chunk * kChunk, from.size()));
  }
  CHECK(joiner.state().StateHash(0) != hash);
  REQUIRE(joiner.state().SetWords(0, words).ok());
  CHECK(joiner.state().StateHash(0) == hash);
  const Values d = Random(random, 100, 0.1f);
  CHECK(donor.Step(d) == joiner.Step(d));
  CHECK(donor.state().StateHash(0) == joiner.state().StateHash(0));
}

TEST_CASE("words that no history has are refused") {
  RuleSpec spec = Co2(0.8, 0.6);
  Course plain(spec, {0});
  CHECK(plain.state().Words(0).empty());
  CHECK_FALSE(plain.state().SetWords(0, {1, 2, 3}).ok());
  CHECK(plain.state().SetWords(0, {}).ok());
  spec.gap_penalty = true;
  Course gap(spec, {0});
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  CHECK_FALSE(gap.state().SetWords(0, {}).ok());
  CHECK_FALSE(gap.state().SetWords(0, {bits(-1), bits(1), 1}).ok());
  CHECK_FALSE(
      gap.state().SetWords(0, {bits(1), bits(std::numeric_limits<double>::infinity()), 1}).ok());
  CHECK_FALSE(gap.state().SetWords(0, {bits(std::nan("")), bits(1), 1}).ok());
  CHECK(gap.state().SetWords(0, {bits(2), bits(1), 7}).ok());
}

TEST_CASE("norms of steps are the same whatever their length") {
  const Values a(19, 1);
  const Values b(19, 3);
  CHECK(SquaredDistance(a.data(), b.data(), 19) == 76);
  CHECK(SquaredDistance(a.data(), b.data(), 0) == 0);
}

}  // namespace
}  // namespace causeway::outer
