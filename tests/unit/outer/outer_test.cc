// Outer rules against float64 references and golden vectors; state hashes.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "daemon/outer/outer_state.h"

#include "daemon/digest/digest.h"
#include "daemon/outer/rule.h"

namespace causeway::outer {
namespace {

using Kind = RuleSpec::Kind;

std::unique_ptr<OuterState> State(Kind kind, double eta, double mu, uint64_t elements,
                                  uint32_t chunk = 64) {
  auto budget = memory::Budget::Create(1 << 20);
  auto state = OuterState::Create({{elements, {kind, eta, mu}}}, chunk, *budget->Open("outer"));
  REQUIRE(state.ok());
  return *std::move(state);
}

TEST_CASE("average: the new value is the old one minus the mean") {
  auto state = State(Kind::kAverage, 1, 0, 3);
  const std::vector<float> previous = {1, 2, -3};
  const std::vector<float> mean = {0.5f, -1, 0};
  std::vector<float> next(3);
  state->StepChunk(0, 0, previous, mean, absl::MakeSpan(next));
  CHECK(next == std::vector<float>{0.5f, 3, -3});
  CHECK(state->Momentum(0, 0).empty());
}

TEST_CASE("nesterov: signs and scaling, two rounds by hand") {
  // u1 = 2, theta1 = 10 - .5 (2 + .5 2) = 8.5;  u2 = .5 2 + 4 = 5, theta2 = 8.5 - .5 (4 + .5 5)
  // = 5.25
  auto state = State(Kind::kNesterov, 0.5, 0.5, 1);
  std::vector<float> next(1);
  state->StepChunk(0, 0, {10.0f}, {2.0f}, absl::MakeSpan(next));
  CHECK(next[0] == 8.5f);
  const std::vector<float> previous = next;
  state->StepChunk(0, 0, previous, {4.0f}, absl::MakeSpan(next));
  CHECK(next[0] == 5.25f);
  CHECK(state->Momentum(0, 0)[0] == 5.0f);
}

TEST_CASE("nesterov follows its float64 reference over many rounds") {
  const double eta = 0.7;
  const double mu = 0.9;
  auto state = State(Kind::kNesterov, eta, mu, 1);
  double theta = 1;
  double u = 0;
  std::vector<float> value = {1};
  for (int round = 0; round < 200; ++round) {
    const float mean = static_cast<float>(std::sin(round * 0.7) * 1e-2);
    u = mu * u + mean;
    theta -= eta * (mean + mu * u);
    std::vector<float> next(1);
    state->StepChunk(0, 0, value, {mean}, absl::MakeSpan(next));
    value = next;
  }
  CHECK(value[0] == Approx(theta).epsilon(1e-4));
}

TEST_CASE("nesterov with mu 0 and eta 1 is average, bit by bit") {
  auto nesterov = State(Kind::kNesterov, 1, 0, 100);
  auto average = State(Kind::kAverage, 1, 0, 100);
  std::vector<float> a(100);
  std::vector<float> b(100);
  for (size_t i = 0; i < 100; ++i) a[i] = b[i] = std::sin(static_cast<float>(i));
  for (int round = 0; round < 5; ++round) {
    std::vector<float> mean(100);
    for (size_t i = 0; i < 100; ++i)
      mean[i] = std::cos(static_cast<float>(i) + 7.0f * static_cast<float>(round)) / 3;
    std::vector<float> next_a(100);
    std::vector<float> next_b(100);
    for (uint32_t chunk = 0; chunk < 2; ++chunk) {
      const size_t first = chunk * 64;
      const size_t n = chunk == 0 ? 64 : 36;
      const auto part = [&](const std::vector<float>& v) {
        return absl::MakeSpan(v).subspan(first, n);
      };
      nesterov->StepChunk(0, chunk, part(a), part(mean), absl::MakeSpan(next_a).subspan(first, n));
      average->StepChunk(0, chunk, part(b), part(mean), absl::MakeSpan(next_b).subspan(first, n));
    }
    a = next_a;
    b = next_b;
    REQUIRE(a == b);
  }
}

TEST_CASE("gradients: the result is the mean; a round without contributors gives zeros") {
  auto state = State(Kind::kGradients, 1, 0, 2);
  CHECK_FALSE(state->rule(0).HasOuterState());
  std::vector<float> next = {9, 9};
  state->StepChunk(0, 0, {0.0f, 0.0f}, {1.5f, -2.0f}, absl::MakeSpan(next));
  CHECK(next == std::vector<float>{1.5f, -2.0f});
  state->CopyChunk(0, 0, {1.0f, 1.0f}, absl::MakeSpan(next));
  CHECK(next == std::vector<float>{0, 0});
}

TEST_CASE("the state hash covers values and momentum, and finds its way back") {
  auto state = State(Kind::kNesterov, 0.5, 0.5, 70);
  const std::vector<float> zero(70, 0.0f);
  std::vector<float> next(70);
  const auto step = [&](float mean) {
    const std::vector<float> means(70, mean);
    state->StepChunk(0, 0, absl::MakeSpan(zero).subspan(0, 64),
                     absl::MakeSpan(means).subspan(0, 64), absl::MakeSpan(next).subspan(0, 64));
    state->StepChunk(0, 1, absl::MakeSpan(zero).subspan(64), absl::MakeSpan(means).subspan(64),
                     absl::MakeSpan(next).subspan(64));
  };
  step(1);
  const engine::Hash256 first = state->StateHash(0);
  state->Reset(0);
  state->HashChunk(0, 0, absl::MakeSpan(next).subspan(0, 64));
  state->HashChunk(0, 1, absl::MakeSpan(next).subspan(64));
  CHECK(state->StateHash(0) != first);  // same values, other momentum
  step(1);
  CHECK(state->StateHash(0) == first);
  std::vector<engine::Hash64> by_hand;
  by_hand.push_back(ChunkHash(absl::MakeSpan(next).subspan(0, 64), state->Momentum(0, 0)));
  by_hand.push_back(ChunkHash(absl::MakeSpan(next).subspan(64), state->Momentum(0, 1)));
  CHECK(digest::HashOfHashes(by_hand) == first);
}

TEST_CASE("momentum that does not fit the budget is refused by name") {
  auto budget = memory::Budget::Create(1000);
  auto state =
      OuterState::Create({{1000, {Kind::kNesterov, 1, 0.5}}}, 64, *budget->Open("run demo"));
  REQUIRE(state.status().code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::outer
