// Thresholds and counts rather than filters: the rates that come in are averages already, and a
// decision should be readable in the log.
//
// Rates are measured while chunks wait for the line, so exchanges that are shorter than a round
// trip leave old ones standing. Every exchange bounds the rates from below, though: its bytes went
// through in its time. That is what lets the planner climb back when a line has become faster.
#include "daemon/planning/planner.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace causeway::planning {
namespace {

constexpr size_t kOverheadRounds = 3;
// A better rung that fell within this many rounds was a mistake; one that stood is forgiven.
constexpr engine::RoundNumber kClimbTrial = 32;
constexpr double kFasterMax = 1e3;

// From one cluster to another, as `witness` (one of the two) measured it; 0: it did not.
double Measured(const Situation& situation, engine::ClusterId from, engine::ClusterId to,
                engine::ClusterId witness) {
  const auto report = situation.reports.find(witness);
  if (report == situation.reports.end()) return 0;
  const auto link = report->second.links.find(witness == from ? to : from);
  if (link == report->second.links.end()) return 0;
  return witness == from ? link->second.send_bytes_per_second
                         : link->second.receive_bytes_per_second;
}

// Whether chunks go between the two in rounds of this plan. Else what was measured between them is
// of other rounds, when the line was shared otherwise.
bool Talk(const std::optional<Plan>& plan, engine::ClusterId a, engine::ClusterId b) {
  return !plan || plan->route == Route::kDirect || plan->parts.count(a) + plan->parts.count(b) > 0;
}

// Of all peers of a cluster at once; unmeasured ones are taken to be like the others.
double LineRate(const Situation& situation, engine::ClusterId cluster, bool out) {
  double sum = 0;
  int known = 0;
  int peers = 0;
  for (engine::ClusterId peer : situation.members) {
    if (peer == cluster || !Talk(situation.plan, peer, cluster)) continue;
    ++peers;
    const engine::ClusterId from = out ? cluster : peer;
    const engine::ClusterId to = out ? peer : cluster;
    double rate = Measured(situation, from, to, cluster);
    if (rate <= 0) rate = Measured(situation, from, to, peer);
    sum += rate;
    known += rate > 0 ? 1 : 0;
  }
  return known == 0 ? 0 : sum * peers / known;
}

bool OwnersAreMembers(const Plan& plan, const Situation& situation) {
  return std::all_of(plan.parts.begin(), plan.parts.end(),
                     [&](const auto& part) { return situation.members.Contains(part.first); });
}

std::string Megabit(double bytes_per_second) {
  return absl::StrFormat("%.4g Mbit/s", bytes_per_second * 8 / 1e6);
}

}  // namespace

Planner::Planner(PlannerRules rules, Plan current)
    : rules_(std::move(rules)), current_(std::move(current)) {
  assert(!rules_.ladder.empty());
  SetCurrent(current_, 0);
}

bool Planner::Idle() const {
  const bool route_is_fixed = !rules_.owner || (rules_.names.size() < 3 && rules_.direct);
  return rules_.ladder.size() == 1 && route_is_fixed;
}

void Planner::SetCurrent(const Plan& plan, engine::RoundNumber round) {
  if (!SameWork(plan, current_)) trials_.Forget();
  TakeUp(plan, round);
}

void Planner::TakeUp(const Plan& plan, engine::RoundNumber round) {
  current_ = plan;
  current_from_ = round;
  const auto rung = std::find(rules_.ladder.begin(), rules_.ladder.end(), plan.codec);
  rung_ = rung == rules_.ladder.end() ? rules_.ladder.size() - 1
                                      : static_cast<size_t>(rung - rules_.ladder.begin());
}

void Planner::RollBack(engine::RoundNumber round) {
  considered_ = std::min(considered_, round);
  current_from_ = std::min(current_from_, round);
  climbed_at_ = std::min(climbed_at_, round);
  trials_ = Trials();
}

std::optional<Exchange> Planner::ExchangeOf(const Situation& situation,
                                            const std::vector<std::string>& names,
                                            std::string* missing) {
  Exchange exchange;
  exchange.elements = situation.elements;
  exchange.packed = situation.packed;
  for (engine::ClusterId cluster : situation.members) {
    const Line line = {LineRate(situation, cluster, true), LineRate(situation, cluster, false)};
    const auto report = situation.reports.find(cluster);
    const bool stepped = report != situation.reports.end() && report->second.step_seconds > 0;
    if (!stepped || line.out <= 0 || line.in <= 0) {
      *missing = absl::StrCat(stepped ? "the line of " : "the step time of ", names.at(cluster));
      return std::nullopt;
    }
    exchange.lines[cluster] = line;
    for (const auto& [peer, link] : report->second.links) {
      if (situation.members.Contains(peer)) {
        exchange.rtt_seconds = std::max(exchange.rtt_seconds, link.rtt_seconds);
      }
    }
  }
  return exchange;
}

// ---------------------------------------------------------------- what a round taught

// The shortest of the members' exchanges is that of the last submission: it waited for nobody. 0:
// not all of them told, or not of one plan.
double Planner::Learn(const Situation& situation, Exchange* exchange) {
  step_seconds_ = 0;
  double observed = 0;
  bool all = situation.plan.has_value();
  for (const auto& [cluster, line] : exchange->lines) {
    const MemberReport& report = situation.reports.at(cluster);
    step_seconds_ = std::max(step_seconds_, report.step_seconds);
    all = all && report.round == situation.round && report.exchange_seconds > 0;
    if (observed == 0 || report.exchange_seconds < observed) observed = report.exchange_seconds;
  }
  if (!all) return 0;
  const Cost expected = CostOf(*situation.plan, *exchange);
  const double transfer =
      std::max(observed - expected.latency_seconds, expected.transfer_seconds / kFasterMax);
  if (transfer > 0 && transfer < expected.transfer_seconds) {
    for (auto& [cluster, line] : exchange->lines) {
      line.out *= expected.transfer_seconds / transfer;
      line.in *= expected.transfer_seconds / transfer;
    }
  }
  beyond_model_.push_back(std::max(0.0, observed - expected.seconds()));
  if (beyond_model_.size() > kOverheadRounds) beyond_model_.pop_front();
  overhead_seconds_ = *std::min_element(beyond_model_.begin(), beyond_model_.end());
  return observed;
}

// ---------------------------------------------------------------- choices

Planner::Choice Planner::Assess(Plan plan, const Exchange& exchange) const {
  Choice choice;
  choice.plan = std::move(plan);
  choice.cost = CostOf(choice.plan, exchange);
  Pace pace = rules_.pace;
  pace.step_seconds = step_seconds_;
  choice.budget = BudgetOf(pace, choice.cost.latency_seconds);
  choice.hides = Hides(choice.cost, overhead_seconds_, choice.budget);
  return choice;
}

// The best way for these lines, or the present one where a better one turned out not to be.
Plan Planner::Way(Plan plan, const Exchange& exchange) const {
  if (!trials_.held(considered_)) {
    return Routed(std::move(plan), exchange, rules_.direct, rules_.owner);
  }
  plan.route = current_.route;
  plan.parts = current_.parts;
  return plan;
}

Planner::Choice Planner::Try(size_t rung, const Exchange& exchange) const {
  Plan plan;
  plan.codec = rules_.ladder[rung];
  Choice choice = Assess(Way(std::move(plan), exchange), exchange);
  if (!choice.hides) HardenSlowLines(rung, exchange, &choice);
  return choice;
}

// Where only ways out are too slow, the clusters behind them encode their own contributions harder
// (a minority) and the others stay. It cannot help a way in: what everybody takes is encoded once
// for all.
void Planner::HardenSlowLines(size_t rung, const Exchange& exchange, Choice* choice) const {
  Plan plan = choice->plan;
  const double within =
      TransferWithin(choice->budget, choice->cost.latency_seconds, overhead_seconds_);
  for (const auto& [cluster, line] : exchange.lines) {
    size_t own = rung;
    while (SecondsOf(cluster, plan, exchange).out > within && own + 1 < rules_.ladder.size()) {
      plan.codecs[cluster] = rules_.ladder[++own];
    }
  }
  if (2 * plan.codecs.size() >= exchange.lines.size()) return;  // then all had better go harder
  Choice harder = Assess(Way(std::move(plan), exchange), exchange);
  if (harder.hides) *choice = std::move(harder);
}

bool Planner::HasAir(const Choice& choice) const {
  const double within =
      TransferWithin(choice.budget, choice.cost.latency_seconds, overhead_seconds_);
  return choice.cost.transfer_seconds <= within * (1 - kClimbAir);
}

size_t Planner::ChooseRung(const Situation& situation, const Exchange& exchange) {
  size_t rung = rung_;
  while (rung + 1 < rules_.ladder.size() && !Try(rung, exchange).hides) ++rung;
  if (rung != rung_) {
    const bool mistaken = climbed_at_ >= 0 && situation.round - climbed_at_ < kClimbTrial;
    climb_patience_ = mistaken ? std::min(2 * climb_patience_, kClimbRoundsMax) : kClimbRounds;
    climbed_at_ = -1;
    rounds_with_air_ = 0;
    return rung;
  }
  if (rung == 0 || !HasAir(Try(rung - 1, exchange))) {
    rounds_with_air_ = 0;
    return rung;
  }
  if (++rounds_with_air_ < climb_patience_) return rung;
  while (rung > 0 && HasAir(Try(rung - 1, exchange))) --rung;
  return rung;
}

bool Planner::RouteIsWorthIt(const Choice& now, const Choice& better,
                             const Situation& situation) const {
  if (!OwnersAreMembers(now.plan, situation)) return true;
  return better.cost.seconds() < now.cost.seconds() * (1 - kRouteGain);
}

// In force from the next round on.
Plan Planner::Proposed(Plan plan, const Situation& situation, const std::string& reason) {
  plan.reason = reason.substr(0, kReasonBytesMax);
  view_ = plan.reason;
  TakeUp(plan, situation.round + 1);
  return plan;
}

std::optional<Plan> Planner::GoBack(const Situation& situation, const Exchange& exchange) {
  const Plan plan = trials_.before();
  const double seconds = trials_.before_seconds();
  trials_.Forget();
  if (!OwnersAreMembers(plan, situation)) return std::nullopt;
  return Proposed(plan, situation,
                  absl::StrFormat("back to what took %.3g s: %s", seconds,
                                  Explain(Assess(plan, exchange), exchange)));
}

std::optional<Plan> Planner::GuessLine(const Situation& situation, const Exchange& exchange,
                                       const Choice& now) {
  if (!rules_.owner || (now.hides && rung_ == 0)) return std::nullopt;  // nothing to gain
  const std::optional<Trials::Guessed> guessed = trials_.Guess(
      situation.round, current_, exchange, rules_.direct, overhead_seconds_, kGuessGain);
  if (!guessed) return std::nullopt;
  const std::string what = guessed->whose
                               ? absl::StrCat("the line of ", rules_.names.at(*guessed->whose),
                                              " carries more than its peers let it")
                               : "all lines carry the same";
  return Proposed(guessed->plan, situation,
                  absl::StrCat("a trial, in case ", what, "; so far ", Explain(now, exchange)));
}

std::optional<Plan> Planner::Consider(const Situation& situation) {
  if (Idle() || situation.members.Count() < 2 || situation.round <= considered_) {
    return std::nullopt;
  }
  std::string missing;
  std::optional<Exchange> exchange = ExchangeOf(situation, rules_.names, &missing);
  if (!exchange) {
    view_ = absl::StrCat("not measured yet: ", missing);
    return std::nullopt;
  }
  considered_ = situation.round;
  const double observed = Learn(situation, &*exchange);
  const Plan* ran = situation.plan ? &*situation.plan : nullptr;
  const Trials::Verdict verdict = trials_.OnRound(situation.round, current_, ran, observed);
  const bool possible = OwnersAreMembers(current_, situation);
  if (!possible) {
    trials_ = Trials();
  } else if (verdict == Trials::Verdict::kWaits) {
    return std::nullopt;
  }
  if (possible && verdict == Trials::Verdict::kFailed) {
    if (std::optional<Plan> before = GoBack(situation, *exchange)) return before;
  }

  const size_t rung = ChooseRung(situation, *exchange);
  const Choice now = Assess(current_, *exchange);
  view_ = Explain(now, *exchange);
  const Choice better = Try(rung, *exchange);
  const bool harder = rung > rung_;
  const bool same_codecs = better.plan.codecs == current_.codecs;
  const bool other = rung != rung_ || (!same_codecs && (!now.hides || HasAir(better)));
  if (!other && !RouteIsWorthIt(now, better, situation)) {
    return GuessLine(situation, *exchange, now);
  }
  const bool due = situation.round - current_from_ >= kRoundsBetween;
  if (!due && !harder && (now.hides || !better.hides)) return std::nullopt;
  if (other || !possible) {
    trials_.Forget();
  } else {
    const double gain =
        1 - (better.cost.seconds() + overhead_seconds_) / (now.cost.seconds() + overhead_seconds_);
    trials_.Propose(situation.round, current_, gain);
  }
  if (rung < rung_) {
    climbed_at_ = situation.round;
    rounds_with_air_ = 0;
  }
  return Proposed(better.plan, situation, Explain(better, *exchange));
}

// ---------------------------------------------------------------- words

std::string Planner::Explain(const Choice& choice, const Exchange& exchange) const {
  const Line& line = exchange.lines.at(choice.cost.slowest);
  std::string text = absl::StrFormat(
      "%.3g s (%.3g MB; slowest %s %s %s; round trip %.0f ms; %.3g s beyond them) ",
      choice.cost.seconds() + overhead_seconds_, choice.cost.bytes_out_max / 1e6,
      rules_.names.at(choice.cost.slowest), choice.cost.slowest_sends ? "out" : "in",
      Megabit(choice.cost.slowest_sends ? line.out : line.in), exchange.rtt_seconds * 1e3,
      overhead_seconds_);
  if (choice.budget.delay_steps == 0) {
    absl::StrAppend(&text, choice.hides ? "cost" : "cost more than", " a quarter of ",
                    rules_.pace.local_steps, rules_.pace.local_steps == 1 ? " step" : " steps");
  } else {
    absl::StrAppend(&text, choice.hides ? "hide behind " : "exceed ",
                    absl::StrFormat("%.4g steps", choice.budget.delay_steps));
  }
  return absl::StrCat(text, absl::StrFormat(" of %.3g s", step_seconds_));
}

}  // namespace causeway::planning
