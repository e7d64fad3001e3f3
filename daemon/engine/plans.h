// Which plan (codec, chunk boundaries, policy) a contribution is encoded under. Bodies are
// opaque.
//
// Confined to the engine. A contribution names its plan and is
// decoded by it, so members may switch at different rounds and nothing has to agree on the moment.
#ifndef CAUSEWAY_DAEMON_ENGINE_PLANS_H_
#define CAUSEWAY_DAEMON_ENGINE_PLANS_H_

#include <string>
#include <vector>

#include "daemon/engine/context.h"

namespace causeway::engine {

inline constexpr size_t kPlansKept = 8;

class Plans {
 public:
  explicit Plans(Context& context) : context_(context) {}

  // The plan for a new contribution to `round`; 0: as the configuration says.
  PlanId For(RoundNumber round) const;
  bool Known(PlanId id) const;

  void Propose(RoundNumber from_round, const std::string& body);
  // From a member, and of an epoch that there has been: what others say would only push out the
  // plans that open rounds name. One that came too early is repeated.
  void OnPlan(ClusterId from, const Plan& body);
  // Who contributes says what its contribution names: the leader may be another by now.
  void Tell(ClusterId to, PlanId id) const;
  // The leader says the newest plans again.
  void Repeat(ClusterId to);

 private:
  void Keep(const Plan& plan);

  Context& context_;
  std::vector<Plan> known_;  // ascending id
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_PLANS_H_
