// What the engine of one run is told once. Everything but `self`, `incarnation` and `random_seed`
// is equal on all clusters (the algorithm digest covers it).
#ifndef CAUSEWAY_DAEMON_ENGINE_CONFIG_H_
#define CAUSEWAY_DAEMON_ENGINE_CONFIG_H_

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

enum class StragglerPolicy { kWait, kDeadline };
enum class RollbackPolicy {
  kAsk,      // wait for the missing voters until the operator approves
  kAuto,     // at once
  kAllHere,  // at once when all voters and members have answered: nobody could know more; else kAsk
};

// Bugs that the simulator plants to test itself. Compiled in only where CAUSEWAY_ENGINE_FAULTS is.
enum class PlantedFault {
  kSkipFence,            // a fenced member goes on completing rounds
  kCountDuplicate,       // a contribution is not bound to its operation
  kCommitWithoutQuorum,  // a candidate installs without a quorum
  kNoPromisePhase,       // survivors commit what each has complete without the promise phase
  kAmnesiacSurvives,     // a restarted member counts as a keeper of memory
  kCutAfterComplete,     // the leader cuts although it has completed
  kWithdrawLate,         // a member withdraws although it has completed
  kIgnorePromise,        // a record below the promise is accepted
  kResidualOnExclude,    // the residual moves although the contribution was excluded
  kNoIncarnations,       // a restarted member is taken for the old one
  kStaleResidual,        // a residual from disk is kept although later rounds counted this cluster
  kOverwriteBase,        // a round is completed while the trainer stands on the value it overwrites
  kAnswersEarly,         // operations are judged by what a gateway holds before it is a member
  kCount,
};

struct Config {
  int clusters = 0;  // roster entries, 1 .. kClustersMax
  ClusterId self = 0;
  Incarnation incarnation = 0;  // fresh at every process start, not 0, ascending per cluster
  FoundingId founding = 0;     // drawn at random by the caller, in case this process founds the run
  Electorate electorate;       // of the first record; later ones are in the records
  ClusterId seed_cluster = 0;  // whose parameters found the run
  Time peer_timeout = 10'000'000;
  StragglerPolicy straggler = StragglerPolicy::kWait;
  Time deadline_grace = 0;  // kDeadline: the least that a round waits after its first contribution
  RollbackPolicy rollback = RollbackPolicy::kAsk;
  // SHA-256 in the daemon. Must be the same function everywhere.
  std::function<Hash256(std::span<const uint8_t>)> hash;
#ifdef CAUSEWAY_ENGINE_FAULTS
  std::bitset<static_cast<size_t>(PlantedFault::kCount)> faults;
#endif

  bool Planted([[maybe_unused]] PlantedFault fault) const {
#ifdef CAUSEWAY_ENGINE_FAULTS
    return faults.test(static_cast<size_t>(fault));
#else
    return false;
#endif
  }

  // All other times follow from peer_timeout.
  Time HeartbeatInterval() const { return peer_timeout / 5; }
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CONFIG_H_
