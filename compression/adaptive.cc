// The choice of a codec. Two thresholds and a count, rather than a filter: the rate that comes in
// is already an average, and a decision should be readable in the log.
#include "compression/adaptive.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::compression {
namespace {

constexpr const char* kLadder[] = {"fp32",    "bf16:ef", "int8:ef", "int4:ef",
                                   "2bit:ef", "sign:ef", "btopk:ef"};

}  // namespace

ExchangeEstimate EstimateExchange(const CodecSpec& spec, const ExchangeConditions& conditions) {
  ExchangeEstimate estimate;
  const double encoded = static_cast<double>(conditions.elements) * BitsPerElement(spec) / 8;
  estimate.wire_bytes = encoded * (1 + kWireOverhead) * conditions.copies;
  const double transfer = conditions.bytes_per_second > 0
                              ? estimate.wire_bytes / conditions.bytes_per_second
                              : std::numeric_limits<double>::infinity();
  estimate.seconds = transfer + conditions.round_trips * conditions.round_trip_seconds;
  estimate.budget_seconds = conditions.delay_steps * conditions.step_seconds;
  estimate.hidden = estimate.seconds <= estimate.budget_seconds;
  return estimate;
}

absl::StatusOr<std::vector<CodecSpec>> AutoLadder(absl::string_view least, absl::string_view most) {
  std::vector<CodecSpec> ladder;
  std::string names;
  bool begun = false;
  bool ended = false;
  for (const char* text : kLadder) {
    const CodecSpec spec = CodecSpec::Parse(text).value();
    const absl::string_view name = Traits(spec.kind).name;
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    begun = begun || name == least;
    if (begun && !ended) ladder.push_back(spec);
    ended = ended || (begun && name == most);
  }
  if (ladder.empty() || !ended) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec auto: from \"", least, "\" to \"", most,
                     "\" is no part of the ladder, least lossy first: ", names));
  }
  return ladder;
}

CodecChooser::CodecChooser(std::vector<CodecSpec> ladder) : ladder_(std::move(ladder)), rung_(0) {
  assert(!ladder_.empty());
}

CodecChooser::Decision CodecChooser::Choose(const ExchangeConditions& conditions) {
  const size_t before = rung_;
  auto hides = [&](size_t rung) { return EstimateExchange(ladder_[rung], conditions).hidden; };
  auto has_air = [&](size_t rung) {
    const ExchangeEstimate estimate = EstimateExchange(ladder_[rung], conditions);
    return estimate.seconds <= estimate.budget_seconds * (1 - kClimbAir);
  };
  while (rung_ + 1 < ladder_.size() && !hides(rung_)) ++rung_;
  if (rung_ != before || rung_ == 0 || !has_air(rung_ - 1)) {
    rounds_with_air_ = 0;
  } else if (++rounds_with_air_ >= kClimbRounds) {
    while (rung_ > 0 && has_air(rung_ - 1)) --rung_;
    rounds_with_air_ = 0;
  }
  Decision decision;
  decision.spec = ladder_[rung_];
  decision.estimate = EstimateExchange(decision.spec, conditions);
  decision.changed = first_ || rung_ != before;
  first_ = false;
  decision.reason = absl::StrFormat(
      "%s: %.3f s (%.3g bytes at %.3g bytes/s, %.3f s round trip) %s the %.3f s of %.3g steps",
      decision.spec.ToString(), decision.estimate.seconds, decision.estimate.wire_bytes,
      conditions.bytes_per_second, conditions.round_trip_seconds,
      decision.estimate.hidden ? "hide behind" : "exceed", decision.estimate.budget_seconds,
      conditions.delay_steps);
  return decision;
}

}  // namespace causeway::compression
