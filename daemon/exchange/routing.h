// Who reduces which chunk of a fragment: a plan's owners, among the members that there are.
//
// The plan names owners by share; some may be no members (any more). Their chunks go in turn to the
// other owners, or to all members where no owner is left. Up to two members reduce each for
// himself, whatever the plan says: an owner in between would save no byte and cost a hop. A
// function of (plan, members, chunks) alone, so the same on every member.
//
// Confined to the loop's thread; the newest answers are kept, since every round of a plan asks.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_ROUTING_H_
#define CAUSEWAY_DAEMON_EXCHANGE_ROUTING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"
#include "daemon/planning/plan.h"

namespace causeway::exchange {

// By chunk; empty: every member reduces every chunk.
using Owners = std::vector<engine::ClusterId>;

Owners OwnersAmong(const planning::Plan& plan, engine::ClusterSet members, uint32_t chunks);

class Routing {
 public:
  explicit Routing(uint32_t chunks) : chunks_(chunks) {}

  // The membership in force.
  void SetMembership(const engine::Record& record);
  const engine::ClusterSet& members() const { return members_; }
  // Of a member's process; 0: no member.
  engine::Incarnation incarnation(engine::ClusterId member) const {
    return member < incarnations_.size() ? incarnations_[member] : 0;
  }

  // Shared: an answer outlives its place here. Ids name one plan for good.
  std::shared_ptr<const Owners> Of(engine::PlanId id, const planning::Plan& plan);

 private:
  struct Known {
    engine::PlanId id;
    engine::ClusterSet members;
    std::shared_ptr<const Owners> owners;
  };

  const uint32_t chunks_;
  engine::ClusterSet members_;
  std::vector<engine::Incarnation> incarnations_;
  std::deque<Known> known_;  // newest last
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_ROUTING_H_
