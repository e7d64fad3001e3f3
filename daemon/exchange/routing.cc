// See routing.h.
#include "daemon/exchange/routing.h"

#include <utility>

namespace causeway::exchange {
namespace {

constexpr size_t kKnownMax = 4;
constexpr int kDirectMembersMax = 2;

}  // namespace

Owners OwnersAmong(const planning::Plan& plan, engine::ClusterSet members, uint32_t chunks) {
  if (plan.route != planning::Route::kOwner || members.Count() <= kDirectMembersMax) return {};
  Owners owners = planning::OwnersOf(plan, chunks);
  std::vector<engine::ClusterId> heirs;
  for (engine::ClusterId member : members) {
    const auto parts = plan.parts.find(member);
    if (parts != plan.parts.end() && parts->second > 0) heirs.push_back(member);
  }
  if (heirs.empty()) {
    for (engine::ClusterId member : members) heirs.push_back(member);
  }
  size_t turn = 0;
  for (engine::ClusterId& owner : owners) {
    if (!members.Contains(owner)) owner = heirs[turn++ % heirs.size()];
  }
  return owners;
}

void Routing::SetMembership(const engine::Record& record) {
  members_ = record.members;
  incarnations_ = record.incarnations;
}

std::shared_ptr<const Owners> Routing::Of(engine::PlanId id, const planning::Plan& plan) {
  for (const Known& known : known_) {
    if (known.id == id && known.members == members_) return known.owners;
  }
  if (known_.size() == kKnownMax) known_.pop_front();
  known_.push_back(
      {id, members_, std::make_shared<const Owners>(OwnersAmong(plan, members_, chunks_))});
  return known_.back().owners;
}

}  // namespace causeway::exchange
