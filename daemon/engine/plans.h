// Which plan (codec, chunk boundaries, policy) a contribution is encoded under. Bodies are
// opaque.
//
// Confined to the engine. A contribution names its plan and is decoded by it, so members may switch
// at different rounds and nothing has to agree on the moment. New contributions follow only what a
// leader of an epoch said; what another member says of a plan serves to decode what names it.
#ifndef CAUSEWAY_DAEMON_ENGINE_PLANS_H_
#define CAUSEWAY_DAEMON_ENGINE_PLANS_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/context.h"

namespace causeway::engine {

inline constexpr size_t kPlansKept = 8;  // the leaders', and of each member that tells of others

class Plans {
 public:
  explicit Plans(Context& context) : context_(context) {}

  // The plan for a new contribution to `round`; 0: as the configuration says.
  PlanId For(RoundNumber round) const;
  bool Known(PlanId id) const { return Find(id) != nullptr || id == 0; }

  size_t size() const { return known_.size(); }

  void Propose(RoundNumber from_round, const std::string& body);
  // From a member, and of an epoch that there has been. What others tell pushes out no plan of the
  // leaders', and none that somebody else told. One that came too early is repeated.
  void OnPlan(ClusterId from, const Plan& body);
  // Who contributes says what its contribution names: the leader may be another by now.
  void Tell(ClusterId to, PlanId id) const;
  // The leader says the newest plans again.
  void Repeat(ClusterId to);

 private:
  struct Entry {
    Plan plan;
    std::optional<ClusterId> told_by;  // nullopt: by the leader of an epoch
  };

  const Entry* Find(PlanId id) const;
  void Keep(const Plan& plan, std::optional<ClusterId> told_by);

  Context& context_;
  std::vector<Entry> known_;  // ascending id
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_PLANS_H_
