// Plan ids carry the epoch of the leader that made them, so two leaders never make the same one and
// a later leader's is the higher.
#include "daemon/engine/plans.h"

#include <algorithm>
#include <cstddef>

namespace causeway::engine {
namespace {

constexpr int kCounterShift = 24;  // of an id, to the counter of the epoch that it was made in
constexpr int kCandidateShift = 16;
constexpr PlanId kOfEpochMax = (PlanId{1} << kCandidateShift) - 1;
static_assert(kEpochCounterMax <= ~PlanId{0} >> kCounterShift);

Epoch EpochOf(PlanId id) {
  return {id >> kCounterShift, static_cast<ClusterId>(id >> kCandidateShift & 0xff)};
}

}  // namespace

PlanId Plans::For(RoundNumber round) const {
  PlanId best = 0;
  for (const Entry& entry : known_) {
    if (!entry.told_by && entry.plan.from_round <= round) best = entry.plan.id;
  }
  return best;
}

const Plans::Entry* Plans::Find(PlanId id) const {
  for (const Entry& entry : known_) {
    if (entry.plan.id == id) return &entry;
  }
  return nullptr;
}

// The first one who tells of a plan is believed, a leader always.
void Plans::Keep(const Plan& plan, std::optional<ClusterId> told_by) {
  const auto have = std::find_if(known_.begin(), known_.end(),
                                 [&](const Entry& entry) { return entry.plan.id >= plan.id; });
  if (have != known_.end() && have->plan.id == plan.id) {
    if (have->told_by && have->plan.body != plan.body) {
      context_.Warn("two words about plan " + std::to_string(plan.id) + ", one by cluster " +
                    std::to_string(int{*have->told_by}));
    }
    if (told_by || !have->told_by) return;
    *have = {plan, told_by};
  } else {
    known_.insert(have, {plan, told_by});
  }
  const auto same = [&](const Entry& entry) { return entry.told_by == told_by; };
  if (std::count_if(known_.begin(), known_.end(), same) > static_cast<ptrdiff_t>(kPlansKept)) {
    known_.erase(std::find_if(known_.begin(), known_.end(), same));
  }
  context_.Act(PlanKnown{plan, told_by});
}

void Plans::Propose(RoundNumber from_round, const std::string& body) {
  if (!context_.Active() || !context_.Leader() || body.size() > kPlanBytesMax) {
    context_.Note("a plan is refused: only the active leader proposes one, of at most " +
                  std::to_string(kPlanBytesMax) + " bytes");
    return;
  }
  const Epoch& epoch = context_.record().epoch;
  PlanId id = epoch.counter << kCounterShift | PlanId{epoch.candidate} << kCandidateShift;
  for (const Entry& entry : known_) {
    if (!entry.told_by && EpochOf(entry.plan.id) == epoch) id = entry.plan.id;
  }
  if ((id & kOfEpochMax) == kOfEpochMax) {
    context_.Note("a plan is refused: this epoch has had its number of plans");
    return;
  }
  const Plan plan{id + 1, from_round, body};
  Keep(plan, std::nullopt);
  context_.SendToMembers(plan);
}

void Plans::OnPlan(ClusterId from, const Plan& body) {
  if (!context_.HasRecord() || !context_.record().members.Contains(from)) return;
  if (EpochOf(body.id) > context_.record().epoch) return;
  const bool leads = from == context_.record().leader;
  Keep(body, leads ? std::nullopt : std::optional<ClusterId>(from));
}

void Plans::Tell(ClusterId to, PlanId id) const {
  if (const Entry* entry = Find(id)) context_.Send(to, entry->plan);
}

void Plans::Repeat(ClusterId to) {
  if (!context_.Active() || !context_.Leader() || !context_.record().members.Contains(to)) return;
  for (const Entry& entry : known_) {
    if (!entry.told_by) context_.Send(to, entry.plan);
  }
}

}  // namespace causeway::engine
