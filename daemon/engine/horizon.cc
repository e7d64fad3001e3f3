// The pace is tied to heartbeats, not to messages: a peer that is quick gains nothing.
#include "daemon/engine/horizon.h"

namespace causeway::engine {

void Horizon::Step(uint64_t seen, std::vector<uint64_t> named, const Electorate& electorate,
                   ClusterId self) {
  uint64_t agreed = 0;  // the highest that a quorum of others, of two clusters or more, names
  uint64_t claimed = seen;
  for (size_t id = 0; id < claims_.size(); ++id) {
    named[id] = std::max(named[id], claims_[id]);
    claimed = std::max(claimed, named[id]);
    claims_[id] = 0;
  }
  for (ClusterId least : electorate.voters) {
    ClusterSet set;
    for (ClusterId voter : electorate.voters) {
      if (voter != self && named[voter] >= named[least]) set.Insert(voter);
    }
    if (least != self && set.Count() >= 2 && electorate.IsQuorum(set)) {
      agreed = std::max(agreed, named[least]);
    }
  }
  known_ = std::max({known_, std::min(agreed, kEpochCounterMax), std::min(claimed, Limit())});
}

}  // namespace causeway::engine
