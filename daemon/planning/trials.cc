// Times decide, not rates: a rate says what a line did under one plan, and the sum of a cluster's
// rates to its peers says little where they were busy at different times. Rejected: bursts that are
// sent only to measure. Several clusters would have to send at one moment to one of them, with
// bytes that train nothing.
#include "daemon/planning/trials.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace causeway::planning {
namespace {

// Lines that are all as wide as would have the present plan take its time.
Exchange Alike(const Exchange& exchange, const Plan& current) {
  const Cost cost = CostOf(current, exchange);
  const Line& slowest = exchange.lines.at(cost.slowest);
  const double rate = cost.slowest_sends ? slowest.out : slowest.in;
  Exchange out = exchange;
  for (auto& [cluster, line] : out.lines) line = {rate, rate};
  return out;
}

// Who was seen to carry most is most likely to carry more.
std::vector<engine::ClusterId> WidestFirst(const Exchange& exchange) {
  std::vector<std::pair<double, engine::ClusterId>> order;
  for (const auto& [cluster, line] : exchange.lines) {
    order.emplace_back(-std::min(line.out, line.in), cluster);
  }
  std::sort(order.begin(), order.end());
  std::vector<engine::ClusterId> out;
  for (const auto& [rate, cluster] : order) out.push_back(cluster);
  return out;
}

// The shortest would hold a trial's one or two rounds against the best of more.
double Middle(std::deque<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

bool SameWay(const Plan& a, const Plan& b) { return a.route == b.route && a.parts == b.parts; }

bool SameWork(const Plan& a, const Plan& b) {
  return SameWay(a, b) && a.codec == b.codec && a.codecs == b.codecs;
}

Trials::Verdict Trials::OnRound(engine::RoundNumber round, const Plan& current, const Plan* ran,
                                double seconds) {
  const bool told = ran != nullptr && seconds > 0 && SameWork(*ran, current);
  if (told) {
    known_.push_back(seconds);
    if (known_.size() > kRoundsKnown) known_.pop_front();
  }
  if (!trial_) return Verdict::kNone;
  if (!told && round - trial_->since <= kPatience) return Verdict::kWaits;
  if (told && seconds < trial_->limit_seconds) {
    wrong_ = {};
    pause_ = kPause;
    hold_ = kPause / 2;
    trial_.reset();
    return Verdict::kStays;
  }
  const bool again = told && ++trial_->rounds < kRounds && seconds < trial_->worst_seconds;
  if (again) return Verdict::kWaits;
  Fail(round);
  return Verdict::kFailed;
}

void Trials::Fail(engine::RoundNumber round) {
  known_.clear();
  if (trial_->whose) {
    wrong_.wide.Insert(*trial_->whose);
  } else if (trial_->guess) {
    wrong_.alike = true;
  }
  if (trial_->guess) return;
  hold_until_ = round + hold_;
  hold_ = std::min(2 * hold_, kPauseMax);
  held_seconds_ = trial_->before_seconds;
}

void Trials::Forget() {
  known_.clear();
  trial_.reset();
}

bool Trials::held(engine::RoundNumber round) const {
  if (round >= hold_until_) return false;
  return known_.empty() || known_.back() < kOtherLines * held_seconds_;
}

void Trials::Propose(engine::RoundNumber round, const Plan& before, double gain) {
  if (!known_.empty()) Begin(before, known_.back(), gain, round);
}

void Trials::Begin(const Plan& before, double seconds, double gain, engine::RoundNumber round) {
  trial_.emplace();
  trial_->before = before;
  trial_->before_seconds = seconds;
  trial_->limit_seconds = seconds * (1 - gain / 2);
  trial_->worst_seconds = seconds * (1 + gain / 2);
  trial_->since = round;
  known_.clear();
}

std::optional<Trials::Guessed> Trials::Guess(engine::RoundNumber round, const Plan& current,
                                             const Exchange& exchange, bool direct_allowed,
                                             double overhead_seconds, double gain_min) {
  if (known_.size() < kRoundsKnown || exchange.lines.size() < 3) return std::nullopt;
  const double seconds = Middle(known_);
  if (round < guess_at_) {
    if (seconds < kOtherLines * settled_seconds_) return std::nullopt;
    guess_at_ = round;
    pause_ = kPause;
  }
  const auto look = [&](const Exchange& guess,
                        std::optional<engine::ClusterId> whose) -> std::optional<Guessed> {
    const Plan plan = Routed(current, guess, direct_allowed, true);
    const double gain = 1 - (CostOf(plan, guess).seconds() + overhead_seconds) /
                                (CostOf(current, guess).seconds() + overhead_seconds);
    if (gain < gain_min || SameWay(plan, current)) return std::nullopt;
    Begin(current, seconds, gain, round);
    trial_->guess = true;
    trial_->whose = whose;
    return Guessed{plan, whose};
  };
  if (!wrong_.alike) {
    if (std::optional<Guessed> guessed = look(Alike(exchange, current), std::nullopt)) {
      return guessed;
    }
  }
  for (engine::ClusterId cluster : WidestFirst(exchange)) {
    if (wrong_.wide.Contains(cluster)) continue;
    Exchange wide = exchange;
    wide.lines[cluster].out *= kGuess;
    wide.lines[cluster].in *= kGuess;
    if (std::optional<Guessed> guessed = look(wide, cluster)) return guessed;
  }
  guess_at_ = round + pause_;
  settled_seconds_ = seconds;
  if (wrong_.any()) pause_ = std::min(2 * pause_, kPauseMax);
  wrong_ = {};
  return std::nullopt;
}

}  // namespace causeway::planning
