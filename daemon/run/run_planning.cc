// Reports go to the leader alone, after every round, so a plan is made once all members have told
// what that round was like.
#include "daemon/run/run_planning.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/run/algorithm.h"

namespace causeway::run {
namespace {

constexpr int64_t kTellAnywayUs = 2'000'000;
// Rounds that a member may have committed before its leader. What says more is of rounds that were
// rolled back, or no member's.
constexpr engine::RoundNumber kReportsAheadMax = 2;
// The middle one of so many counts: evaluating or saving now and then does not look like training.
constexpr size_t kPacesKept = 5;

// Nothing is measured yet: where owners are wanted, all own alike.
planning::Plan Configured(const config::Run& config) {
  planning::Plan plan;
  plan.codec = CodecOf(config.codec);
  const auto clusters = static_cast<uint32_t>(config.clusters.size());
  if (config.route == config::Route::kOwner && clusters > 2) {
    plan.route = planning::Route::kOwner;
    for (uint32_t id = 0; id < clusters; ++id) {
      const uint32_t more = id < planning::kShareParts % clusters ? 1 : 0;
      plan.parts[static_cast<engine::ClusterId>(id)] = planning::kShareParts / clusters + more;
    }
  }
  plan.reason = config.codec.ladder.empty() ? "as configured" : "to begin with";
  return plan;
}

PlanBounds BoundsOf(const config::Run& config) {
  PlanBounds bounds;
  bounds.codecs = LadderOf(config.codec);
  bounds.direct = config.route != config::Route::kOwner;
  bounds.owner = config.route != config::Route::kDirect;
  return bounds;
}

planning::PlannerRules RulesOf(const config::Run& config, const Roster& roster) {
  const PlanBounds bounds = BoundsOf(config);
  planning::PlannerRules rules;
  rules.ladder = bounds.codecs;
  rules.direct = bounds.direct;
  rules.owner = bounds.owner;
  rules.pace.local_steps = config.algorithm.local_steps;
  rules.pace.fragments = config.algorithm.fragments;
  rules.pace.delay = config.algorithm.round_late ? std::optional(config.algorithm.local_steps)
                                                 : config.algorithm.delay;
  rules.names = roster.Names(engine::ClusterSet::FirstOf(roster.size()));
  return rules;
}

double Middle(std::deque<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

RunPlanning::RunPlanning(const config::Run& config, const Roster& roster)
    : config_(config),
      roster_(roster),
      configured_(Configured(config)),
      bounds_(BoundsOf(config)),
      book_(configured_) {
  Reset();
}

void RunPlanning::Reset() {
  book_ = planning::PlanBook(configured_);
  newest_id_ = 0;
  newest_from_ = 0;
  planner_ = std::make_unique<planning::Planner>(RulesOf(config_, roster_), configured_);
  computing_.clear();
  exchange_seconds_ = 0;
  ran_.reset();
  round_ = 0;
  told_ = true;
  reports_.clear();
}

absl::Status RunPlanning::Check(const engine::Plan& plan) const {
  return DecodePlan(roster_, bounds_, plan.body).status();
}

bool RunPlanning::OnPlanKnown(const engine::PlanKnown& known) {
  const engine::Plan& plan = known.plan;
  absl::StatusOr<planning::Plan> decoded = DecodePlan(roster_, bounds_, plan.body);
  assert(decoded.ok() && "Check lets no other reach the engine");
  book_.Add(plan.id, *decoded, known.told_by);
  if (known.told_by || plan.id < newest_id_) return false;
  newest_id_ = plan.id;
  newest_from_ = plan.from_round;
  planner_->SetCurrent(*decoded, std::min(plan.from_round, round_ + 1));
  return true;
}

// ---------------------------------------------------------------- measured here

void RunPlanning::OnApplied(uint32_t rank, uint32_t computing_us) {
  if (computing_us == 0) return;
  std::deque<double>& paces = computing_[rank];
  paces.push_back(computing_us / 1e6);
  if (paces.size() > kPacesKept) paces.pop_front();
}

void RunPlanning::OnCommitted(const engine::CommitRecord& record, double exchange_seconds) {
  if (record.state.round <= round_) return;  // another fragment was first
  round_ = record.state.round;
  exchange_seconds_ = exchange_seconds;
  ran_ = PlanOf(record);
  told_ = false;
}

std::optional<planning::Plan> RunPlanning::PlanOf(const engine::CommitRecord& record) const {
  if (record.contributors.empty()) return std::nullopt;
  const engine::PlanId id = record.contributors.front().plan;
  const bool one = std::all_of(record.contributors.begin(), record.contributors.end(),
                               [id](const engine::Contributor& c) { return c.plan == id; });
  const planning::Plan* plan = one ? book_.Find(id) : nullptr;
  return plan == nullptr ? std::nullopt : std::optional(*plan);
}

void RunPlanning::OnRolledBack(engine::RoundNumber round) {
  if (round >= round_) return;
  round_ = round;
  ran_.reset();
  exchange_seconds_ = 0;
  told_ = false;
  reports_.clear();
  planner_->RollBack(round);
}

planning::MemberReport RunPlanning::Measure(const std::vector<transport::PeerRates>& rates) const {
  planning::MemberReport report;
  for (const transport::PeerRates& peer : rates) {
    const std::optional<engine::ClusterId> id = roster_.Find(peer.cluster);
    if (!id || !peer.up) continue;
    // The shortest round trip: what bytes in the way add to it is in the rates already.
    const absl::Duration rtt = peer.rtt_min > absl::ZeroDuration() ? peer.rtt_min : peer.rtt;
    report.links[*id] = {peer.send.bytes_per_s, peer.receive.bytes_per_s,
                         absl::ToDoubleSeconds(rtt)};
  }
  double computing = 0;  // of the slowest rank
  for (const auto& [rank, paces] : computing_) computing = std::max(computing, Middle(paces));
  report.step_seconds = computing / std::max(1u, config_.algorithm.local_steps);
  report.exchange_seconds = exchange_seconds_;
  report.round = round_;
  return report;
}

double RunPlanning::ChunkRate(const std::vector<transport::PeerRates>& rates) const {
  double sum = 0;
  int known = 0;
  for (const transport::PeerRates& peer : rates) {
    if (!roster_.Find(peer.cluster) || !peer.up || peer.send.bytes_per_s <= 0) continue;
    sum += peer.send.bytes_per_s;
    ++known;
  }
  return known == 0 || newest().route == planning::Route::kOwner ? sum : sum / known;
}

bool RunPlanning::ReportDue(int64_t now_us) const {
  return !planner_->Idle() && (!told_ || now_us - told_us_ >= kTellAnywayUs);
}

void RunPlanning::Reported(int64_t now_us) {
  told_ = true;
  told_us_ = now_us;
}

// ---------------------------------------------------------------- leading

void RunPlanning::TakeReport(engine::ClusterId from, planning::MemberReport report) {
  if (report.round - round_ > kReportsAheadMax) return;
  reports_[from] = std::move(report);
}

bool RunPlanning::EverybodyTold(const engine::ClusterSet& members) const {
  for (engine::ClusterId member : members) {
    const auto report = reports_.find(member);
    if (report == reports_.end() || report->second.round < round_) return false;
  }
  return true;
}

std::optional<engine::ProposePlan> RunPlanning::Propose(
    const engine::ClusterSet& members, uint64_t elements,
    const std::map<compression::CodecKind, double>& packed) {
  if (planner_->Idle() || round_ == 0 || !EverybodyTold(members)) return std::nullopt;
  planning::Situation situation;
  situation.round = round_;
  situation.members = members;
  situation.elements = elements;
  situation.plan = ran_;
  situation.reports = reports_;
  situation.packed = packed;
  const std::optional<planning::Plan> plan = planner_->Consider(situation);
  if (!plan) return std::nullopt;
  return engine::ProposePlan{round_ + 1, EncodePlan(roster_, *plan)};
}

}  // namespace causeway::run
