// See run_planning.h.
#include "daemon/run/run_planning.h"

#include <cassert>

#include "daemon/run/algorithm.h"

namespace causeway::run {
namespace {

planning::Plan Configured(const config::Run& config) {
  planning::Plan plan;
  plan.codec = CodecOf(config.codec);
  plan.reason = "as configured";
  return plan;
}

PlanBounds BoundsOf(const config::Run& config) {
  PlanBounds bounds;
  bounds.codecs = {CodecOf(config.codec)};
  return bounds;
}

}  // namespace

RunPlanning::RunPlanning(const config::Run& config, const Roster& roster)
    : roster_(roster),
      configured_(Configured(config)),
      bounds_(BoundsOf(config)),
      book_(configured_) {}

absl::Status RunPlanning::Check(const engine::Plan& plan) const {
  return DecodePlan(roster_, bounds_, plan.body).status();
}

void RunPlanning::OnPlanKnown(const engine::Plan& plan) {
  absl::StatusOr<planning::Plan> decoded = DecodePlan(roster_, bounds_, plan.body);
  assert(decoded.ok() && "Check lets no other reach the engine");
  book_.Add(plan.id, *std::move(decoded));
}

void RunPlanning::Reset() { book_ = planning::PlanBook(configured_); }

}  // namespace causeway::run
