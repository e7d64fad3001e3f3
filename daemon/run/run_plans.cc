// A run's side of planning: members tell the leader what they measured, the leader proposes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/observe/events.h"
#include "daemon/run/run.h"
#include "proto/admin.pb.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

const char* RouteText(planning::Route route) {
  return route == planning::Route::kOwner ? "owner" : "direct";
}

}  // namespace

void Run::Tick() {
  MeasureSite();
  TellLeader();
  GrowSoon();
}

// Where chunks that are packed go, and what may pack them.
void Run::MeasureSite() {
  if (!exchange_) return;
  entropy_->SetSite({static_cast<double>(around_.workers->threads()),
                     planning_.ChunkRate(around_.transport->Rates())});
}

// What this cluster measured goes to whoever leads now, which may be itself.
void Run::TellLeader() {
  if (!engine_ || !exchange_ || !planning_.ReportDue(loop::Now())) return;
  const engine::Status status = engine_->Snapshot();
  if (status.phase != engine::Phase::kActive || !status.record) return;
  planning_.Reported(loop::Now());
  planning::MemberReport report = planning_.Measure(around_.transport->Rates());
  const engine::ClusterId leader = status.record->leader;
  if (leader != self_) {
    wan::v1::RunMessage message;
    *message.mutable_link_report() = EncodeLinkReport(roster_, report);
    network_.Send(leader, std::move(message));
    return;
  }
  planning_.TakeReport(self_, std::move(report));
  ProposePlan();
}

void Run::OnLinkReport(engine::ClusterId from, const wan::v1::LinkReport& message) {
  absl::StatusOr<planning::MemberReport> report = DecodeLinkReport(roster_, message);
  if (!report.ok()) {
    around_.metrics->authorisation_denied.With({"protocol"}).Add(1);
    around_.log->Warning(event::kPeerRefused, {{"run", name()}, {"peer", roster_.Name(from)}},
                         absl::StrCat("message dropped: ", report.status().message()));
    return;
  }
  planning_.TakeReport(from, *std::move(report));
  ProposePlan();
}

void Run::ProposePlan() {
  if (!engine_ || !exchange_) return;
  const engine::Status status = engine_->Snapshot();
  const bool leads =
      status.phase == engine::Phase::kActive && status.record && status.record->leader == self_;
  if (!leads) return;
  uint64_t elements = 0;
  for (const local::FragmentRecord& fragment : layout_->fragments()) {
    elements = std::max(elements, fragment.elements);
  }
  const auto plan = planning_.Propose(status.record->members, elements, entropy_->Ratios());
  if (plan) Drive(*plan);
}

void Run::Do(const engine::PlanKnown& action) {
  const bool newest = planning_.OnPlanKnown(action);
  if (exchange_) exchange_->OnPlanKnown();
  if (!newest) return;
  const planning::Plan& plan = planning_.newest();
  around_.log->Info(event::kPlan,
                    {{"run", name()},
                     {"plan", action.plan.id},
                     {"from_round", action.plan.from_round},
                     {"codec", plan.codec.ToString()},
                     {"harder", HarderText(plan)},
                     {"route", RouteText(plan.route)},
                     {"shares", SharesText(plan)}},
                    plan.reason);
}

// "paris 50%, tokyo 25%, lima 25%"; empty where nobody owns.
std::string Run::SharesText(const planning::Plan& plan) const {
  std::vector<std::string> words;
  for (const auto& [cluster, part] : plan.parts) {
    words.push_back(
        absl::StrFormat("%s %.3g%%", roster_.Name(cluster), 100.0 * part / planning::kShareParts));
  }
  return absl::StrJoin(words, ", ");
}

// "oslo sign:b256:ef": clusters whose contributions are encoded otherwise; empty where none are.
std::string Run::HarderText(const planning::Plan& plan) const {
  std::vector<std::string> words;
  for (const auto& [cluster, codec] : plan.codecs) {
    words.push_back(absl::StrCat(roster_.Name(cluster), " ", codec.ToString()));
  }
  return absl::StrJoin(words, ", ");
}

void Run::FillPlan(admin::v1::PlanStatus* out) const {
  const planning::Plan& plan = planning_.newest();
  out->set_codec(plan.codec.ToString());
  out->set_route(RouteText(plan.route));
  out->set_since_round(planning_.newest_from());
  out->set_why(plan.reason);
  out->set_now(planning_.view());
  for (const auto& [cluster, part] : plan.parts) {
    (*out->mutable_shares())[roster_.Name(cluster)] =
        static_cast<double>(part) / planning::kShareParts;
  }
  for (const auto& [cluster, codec] : plan.codecs) {
    (*out->mutable_codecs())[roster_.Name(cluster)] = codec.ToString();
  }
}

}  // namespace causeway::run
