// Momentum is ordinary memory rather than a segment of its own: trainers never see it.
#include "daemon/outer/outer_state.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/vector.h"
#include "daemon/digest/digest.h"

namespace causeway::outer {
namespace {

constexpr uint64_t kMomentumFactor = 0x9e3779b97f4a7c15u;
constexpr size_t kHistoryWords = 3;
static_assert(kHistoryWords <= kRuleWordsMax);

}  // namespace

engine::Hash64 ChunkHash(absl::Span<const float> values, absl::Span<const float> momentum) {
  const uint64_t hash = compression::ContentHash(values);
  if (momentum.empty()) return hash;
  return hash * kMomentumFactor + compression::ContentHash(momentum);
}

absl::Status CheckWords(const Rule& rule, absl::Span<const engine::Hash64> words) {
  const size_t expected = rule.MeasuresSteps() ? kHistoryWords : 0;
  if (words.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("outer state: ", words.size(), " words of the rule where it has ", expected));
  }
  for (size_t i = 0; i < std::min<size_t>(words.size(), 2); ++i) {
    const double norm = std::bit_cast<double>(words[i]);
    if (!(norm >= 0 && std::isfinite(norm))) {
      return absl::InvalidArgumentError("outer state: a step's norm is negative or not finite");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OuterState>> OuterState::Create(
    const std::vector<FragmentShape>& fragments, uint32_t chunk_elements,
    std::shared_ptr<memory::Account> account) {
  auto state = std::unique_ptr<OuterState>(new OuterState());
  state->chunk_elements_ = chunk_elements;
  uint64_t momentum_bytes = 0;
  for (const FragmentShape& shape : fragments) {
    Fragment fragment;
    fragment.elements = shape.elements;
    fragment.rule = MakeRule(shape.rule);
    fragment.hashes.resize((shape.elements + chunk_elements - 1) / chunk_elements);
    fragment.factors = fragment.rule->Factors(1, fragment.history);
    if (fragment.rule->MeasuresSteps()) fragment.squared_norms.resize(fragment.hashes.size());
    if (fragment.rule->UsesMomentum()) momentum_bytes += shape.elements * sizeof(float);
    state->fragments_.push_back(std::move(fragment));
  }
  absl::StatusOr<memory::Charge> charge = memory::Charge::Reserve(account, momentum_bytes);
  if (!charge.ok()) return charge.status();
  state->charge_ = *std::move(charge);
  for (Fragment& fragment : state->fragments_) {
    if (fragment.rule->UsesMomentum()) fragment.momentum.assign(fragment.elements, 0.0f);
  }
  return state;
}

absl::Span<float> OuterState::Momentum(Fragment& fragment, uint32_t chunk) {
  if (fragment.momentum.empty()) return {};
  const uint64_t first = uint64_t{chunk} * chunk_elements_;
  const uint64_t count = std::min<uint64_t>(chunk_elements_, fragment.elements - first);
  return absl::MakeSpan(fragment.momentum).subspan(first, count);
}

absl::Span<float> OuterState::Momentum(uint32_t fragment, uint32_t chunk) {
  return Momentum(fragments_.at(fragment), chunk);
}

void OuterState::Remember(Fragment& fragment, uint32_t chunk, absl::Span<const float> values) {
  fragment.hashes.at(chunk) = ChunkHash(values, Momentum(fragment, chunk));
}

void OuterState::StepChunk(uint32_t index, uint32_t chunk, absl::Span<const float> previous,
                           absl::Span<const float> mean, absl::Span<float> next) {
  Fragment& fragment = fragments_.at(index);
  assert(previous.size() == mean.size() && mean.size() == next.size());
  fragment.rule->Step(
      {previous.data(), mean.data(), Momentum(fragment, chunk).data(), next.data(), next.size()},
      fragment.factors);
  if (!fragment.squared_norms.empty()) {
    fragment.squared_norms[chunk] = SquaredDistance(previous.data(), next.data(), next.size());
  }
  Remember(fragment, chunk, next);
}

void OuterState::CopyChunk(uint32_t index, uint32_t chunk, absl::Span<const float> previous,
                           absl::Span<float> next) {
  Fragment& fragment = fragments_.at(index);
  if (fragment.rule->HasOuterState()) {
    std::memcpy(next.data(), previous.data(), next.size() * sizeof(float));
  } else {
    std::memset(next.data(), 0, next.size() * sizeof(float));
  }
  Remember(fragment, chunk, next);
}

void OuterState::HashChunk(uint32_t index, uint32_t chunk, absl::Span<const float> values) {
  Remember(fragments_.at(index), chunk, values);
}

void OuterState::BeginRound(uint32_t index, int64_t round) {
  Fragment& fragment = fragments_.at(index);
  fragment.factors = fragment.rule->Factors(round, fragment.history);
}

void OuterState::EndRound(uint32_t index) {
  Fragment& fragment = fragments_.at(index);
  if (fragment.squared_norms.empty()) return;
  double total = 0;
  for (double squared : fragment.squared_norms) total += squared;
  fragment.rule->Remember(std::sqrt(total), &fragment.history);
}

std::vector<engine::Hash64> OuterState::Words(uint32_t index) const {
  const Fragment& fragment = fragments_.at(index);
  if (!fragment.rule->MeasuresSteps()) return {};
  return {std::bit_cast<uint64_t>(fragment.history.last_norm),
          std::bit_cast<uint64_t>(fragment.history.mean_norm), fragment.history.norms};
}

absl::Status OuterState::SetWords(uint32_t index, absl::Span<const engine::Hash64> words) {
  Fragment& fragment = fragments_.at(index);
  if (absl::Status good = CheckWords(*fragment.rule, words); !good.ok()) return good;
  if (!words.empty()) {
    fragment.history = {std::bit_cast<double>(words[0]), std::bit_cast<double>(words[1]), words[2]};
  }
  return absl::OkStatus();
}

void OuterState::TakeOver(const OuterState& from, uint32_t fragments) {
  for (uint32_t index = 0; index < fragments; ++index) {
    Fragment& to = fragments_.at(index);
    const Fragment& source = from.fragments_.at(index);
    assert(to.elements == source.elements);
    to.momentum = source.momentum;
    to.hashes = source.hashes;
    to.history = source.history;
  }
}

void OuterState::Reset(uint32_t index) {
  Fragment& fragment = fragments_.at(index);
  std::fill(fragment.momentum.begin(), fragment.momentum.end(), 0.0f);
  fragment.history = {};
}

engine::Hash256 OuterState::StateHash(uint32_t index) const {
  std::vector<engine::Hash64> hashes = fragments_.at(index).hashes;
  const std::vector<engine::Hash64> words = Words(index);
  hashes.insert(hashes.end(), words.begin(), words.end());
  return digest::HashOfHashes(hashes);
}

}  // namespace causeway::outer
