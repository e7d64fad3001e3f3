// A picture of the engine for `causeway status`, metrics and tests. Values only.
#ifndef CAUSEWAY_DAEMON_ENGINE_STATUS_H_
#define CAUSEWAY_DAEMON_ENGINE_STATUS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

enum class Phase {
  kForming,   // no record yet: awaits the other voters or trainers
  kJoining,   // a run exists; this gateway is not (or not any more) a member
  kChanging,  // a membership is being agreed
  kActive,    // member of an installed epoch
  kStalled,   // no quorum, or the leader is not heard
  kHalted,    // as kActive, but the operator stopped the run: no rounds
  kStopped,   // after Fatal
};
const char* PhaseName(Phase phase);

enum class RoundPhase { kIdle, kOpen, kComplete };

struct FragmentStatus {
  bool holds = false;
  StateId committed;
  RoundPhase phase = RoundPhase::kIdle;
  RoundNumber round = 0;  // the open one
  Attempt attempt = 0;
  ClusterSet contributors;  // who may count in this attempt
  ClusterSet announced;     // whose contribution is on its way or here
  ClusterSet completed;     // whose COMPLETE is here
  OpId own_op;
  bool fetching = false;
};

struct PeerStatus {
  Incarnation incarnation = 0;
  Time last_heard = 0;
  bool connected = false;
  bool suspected = false;
  bool member = false;
};

// How much an engine keeps of what others said and of what was decided, of all fragments together.
struct Kept {
  size_t votes = 0;
  size_t records = 0;
  size_t held = 0;  // messages that wait for the disk
  size_t plans = 0;
};

struct Status {
  Phase phase = Phase::kForming;
  ClusterSet awaited;  // who is waited for, all reasons together
  std::string reason;
  Epoch promised;
  std::optional<Record> record;
  bool installed = false;
  bool kept_memory = false;
  bool frozen = false;            // promised since the last INSTALLED
  ClusterSet foreign;             // hold this run of another founding; not heard
  std::vector<PeerStatus> peers;  // by cluster id
  std::vector<FragmentStatus> fragments;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_STATUS_H_
