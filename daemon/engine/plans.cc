// Plan ids carry the epoch of the leader that made them, so two leaders never make the same one and
// a later leader's is the higher.
#include "daemon/engine/plans.h"

#include <algorithm>

namespace causeway::engine {
namespace {

constexpr int kCounterShift = 24;  // of an id, to the counter of the epoch that it was made in

}  // namespace

PlanId Plans::For(RoundNumber round) const {
  PlanId best = 0;
  for (const Plan& plan : known_) {
    if (plan.from_round <= round) best = plan.id;
  }
  return best;
}

bool Plans::Known(PlanId id) const {
  return id == 0 || std::any_of(known_.begin(), known_.end(),
                                [id](const Plan& plan) { return plan.id == id; });
}

void Plans::Keep(const Plan& plan) {
  if (Known(plan.id)) return;
  const auto after = std::find_if(known_.begin(), known_.end(),
                                  [&](const Plan& have) { return have.id > plan.id; });
  known_.insert(after, plan);
  if (known_.size() > kPlansKept) known_.erase(known_.begin());
  context_.Act(PlanKnown{plan});
}

void Plans::Propose(RoundNumber from_round, const std::string& body) {
  if (!context_.Active() || !context_.Leader() || body.size() > kPlanBytesMax) {
    context_.Note("a plan is refused: only the active leader proposes one, of at most " +
                  std::to_string(kPlanBytesMax) + " bytes");
    return;
  }
  const Epoch& epoch = context_.record().epoch;
  const PlanId first = epoch.counter << kCounterShift | static_cast<PlanId>(epoch.candidate) << 16;
  PlanId id = first;
  if (!known_.empty()) id = std::max(id, known_.back().id);
  const Plan plan{id + 1, from_round, body};
  Keep(plan);
  context_.SendToMembers(plan);
}

void Plans::OnPlan(ClusterId from, const Plan& body) {
  if (!context_.HasRecord() || !context_.record().members.Contains(from)) return;
  if (body.id >> kCounterShift > context_.record().epoch.counter) return;
  Keep(body);
}

void Plans::Tell(ClusterId to, PlanId id) const {
  for (const Plan& plan : known_) {
    if (plan.id == id) context_.Send(to, plan);
  }
}

void Plans::Repeat(ClusterId to) {
  if (!context_.Active() || !context_.Leader() || !context_.record().members.Contains(to)) return;
  for (const Plan& plan : known_) context_.Send(to, plan);
}

}  // namespace causeway::engine
