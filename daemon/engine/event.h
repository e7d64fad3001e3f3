// What the daemon (or the simulator) tells the engine. All are facts; none carries data bytes.
#ifndef CAUSEWAY_DAEMON_ENGINE_EVENT_H_
#define CAUSEWAY_DAEMON_ENGINE_EVENT_H_

#include <string>
#include <variant>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/message.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

// What the checkpoint on disk holds of a fragment.
struct HeldFragment {
  FragmentId fragment = 0;
  StateId state;
  std::vector<CommitRecord> records;  // newest last
};

// First event after construction. Empty: no outer state on this disk.
struct Start {
  std::vector<HeldFragment> held;
};

// A local trainer has joined; the daemon has checked that it is the only one of the cluster.
struct TrainerJoined {
  uint64_t session = 0;
  Hash256 schema{};
  Hash256 algorithm{};
  uint32_t fragments = 0;  // 1 .. kFragmentsMax
  // The schemas that this one extends: a run that has one of them grows once all members' trainers
  // came with this one. Their fragments are the first ones.
  std::vector<SchemaId> extends;
  bool has_parameters = false;
  // Hash of the parameters it came with, which the daemon keeps until the session's first Submit.
  // Where the run is to grow, of those that are new.
  Hash256 parameters{};
};

// `died` or left in order. Its uncounted contributions are withdrawn where that is still possible.
struct TrainerGone {
  uint64_t session = 0;
  bool died = false;
};

// Hints: on connect, what is outstanding to the peer is repeated at once. Suspicion never rests on
// them.
struct PeerConnected {
  ClusterId peer = 0;
};
struct PeerDisconnected {
  ClusterId peer = 0;
};

struct Received {
  ClusterId from = 0;  // as authenticated by the transport
  Envelope envelope;
};

// Bytes moved from that peer, of any kind, on a connection of this incarnation: counts as heard.
struct Progress {
  ClusterId from = 0;
  Incarnation incarnation = 0;
};

// An operation of the trainer whose snapshot is complete. `base` names the value it started from:
// lineage and round; the chain may be zero where the trainer does not know it.
struct Submit {
  FragmentId fragment = 0;
  StateId base;
  Weight weight = 0;
  OpId op;
};

// The data plane holds the combined result of exactly the set it was told by Reduce.
struct ResultHeld {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Epoch epoch;
  Attempt attempt = 0;
  Hash256 result{};
  Hash256 previous_state{};  // of the outer state of round - 1; zero where there is none
};

// The data plane has staged the whole state that FetchState named, checksums good.
struct StateHeld {
  FragmentId fragment = 0;
  StateId state;
};

// The data plane gave up on that fetch: no donor serves that state any more. It decides by
// progress.
struct StateFailed {
  FragmentId fragment = 0;
  StateId state;
};

struct Persisted {
  uint64_t token = 0;
};

// The local trainer stands on the value of this round now (it was told to begin there, or has taken
// it over). While it stands on round r, the data plane needs r and r+1: round r+2 is not completed.
struct TrainerApplied {
  FragmentId fragment = 0;
  RoundNumber round = 0;
};

// The operator's wishes. A change of voters is honoured by the leader and refused elsewhere.
struct ChangeElectorate {
  Electorate electorate;
};
struct LeaveRequested {};
// The run shall stand still on all clusters, at one round of each fragment, or go on again. Any
// member may be told; the leader makes a record of it.
struct StopRequested {
  bool stop = true;
};
// The operator accepts that commits are undone (only asked for when Config::rollback is kAsk).
struct ApproveRollback {};

// A plan for later rounds. Announced by the leader, refused with a note elsewhere.
struct ProposePlan {
  RoundNumber from_round = 0;
  std::string body;  // at most kPlanBytesMax
};

// Engine::NextTimer() has come.
struct Timer {};

using Event = std::variant<Start, TrainerJoined, TrainerGone, PeerConnected, PeerDisconnected,
                           Received, Progress, Submit, ResultHeld, StateHeld, StateFailed,
                           Persisted, TrainerApplied, ChangeElectorate, LeaveRequested,
                           StopRequested, ApproveRollback, ProposePlan, Timer>;

const char* EventName(const Event& event);

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_EVENT_H_
