// COMPLETEs received for one fragment: the newest few of each member, so that a peer cannot make it
// grow. What falls out is repeated by its sender, or answered by COMMITTED.
#ifndef CAUSEWAY_DAEMON_ENGINE_VOTES_H_
#define CAUSEWAY_DAEMON_ENGINE_VOTES_H_

#include <vector>

#include "daemon/engine/ids.h"

namespace causeway::engine {

struct Vote {
  ClusterId from = 0;
  Epoch epoch;
  Lineage lineage = 0;
  RoundNumber round = 0;
  Attempt attempt = 0;
  Hash256 result{};
  Hash256 previous_state{};
  Hash256 chain{};
};

inline constexpr int kVotesKeptPerCluster = 4;

class VoteBox {
 public:
  void Add(const Vote& vote);
  const Vote* Find(ClusterId from, const Epoch& epoch, Lineage lineage, RoundNumber round,
                   Attempt attempt) const;
  // Forgets what is decided: rounds up to and including `round` of `lineage`, and older lineages.
  void Forget(Lineage lineage, RoundNumber round);
  size_t size() const { return votes_.size(); }

 private:
  std::vector<Vote> votes_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_VOTES_H_
