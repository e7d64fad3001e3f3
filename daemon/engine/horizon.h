// How far the epochs that others name are believed, so that no single voice can use the numbers up.
//
// Each candidate mints the number above the highest one that it knows of. If every number were
// believed, one peer that says the highest possible would leave no number for the next epoch. So
// what others name counts up to kEpochLeadMax above what was known here at the last heartbeat, and
// what is known moves by that much in each heartbeat interval at most, whoever says so. What a
// quorum of the voters names is known at once: a gateway that was away need not climb to it.
//
// Confined to the engine. Lineages are bounded by it too: each begins with an epoch of its own.
#ifndef CAUSEWAY_DAEMON_ENGINE_HORIZON_H_
#define CAUSEWAY_DAEMON_ENGINE_HORIZON_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

inline constexpr uint64_t kEpochLeadMax = 1024;

class Horizon {
 public:
  // `known`: the highest counter on this disk.
  Horizon(int clusters, uint64_t known)
      : known_(known), claims_(static_cast<size_t>(clusters), 0) {}

  uint64_t Limit() const { return std::min(known_ + kEpochLeadMax, kEpochCounterMax); }
  bool Reaches(uint64_t counter) const { return counter <= Limit(); }

  // A message of `from` was refused for naming `counter`. True: the first one since the last step.
  bool Claim(ClusterId from, uint64_t counter) {
    const bool first = claims_[from] == 0;
    claims_[from] = std::max(claims_[from], counter);
    return first;
  }

  // Once a heartbeat interval. `seen`: the highest counter that was believed. `named`: by cluster,
  // what its believed words name; 0: not heard. `electorate`: of the newest record known here.
  void Step(uint64_t seen, std::vector<uint64_t> named, const Electorate& electorate,
            ClusterId self);

 private:
  uint64_t known_;
  std::vector<uint64_t> claims_;  // by cluster, since the last step
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_HORIZON_H_
