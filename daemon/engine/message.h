// What gateways say to each other about a run. Bulk data is not here: only what is known about it.
//
// Every message may be lost, doubled, delayed or reordered, and is then repeated by its sender
// until answered or void. The decoder of the wire form checks the k...Max limits before it
// allocates; the engine checks ids against the run (see Engine::Handle).
#ifndef CAUSEWAY_DAEMON_ENGINE_MESSAGE_H_
#define CAUSEWAY_DAEMON_ENGINE_MESSAGE_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

inline constexpr size_t kPlanBytesMax = 4096;

// On every message. `to_incarnation` 0: the sender does not know it yet (JOIN and HEARTBEAT only).
struct Header {
  Epoch epoch;  // of the record in which the sender speaks; for PREPARE .. INSTALLED the new one
  Lineage lineage = 0;
  Incarnation from_incarnation = 0;
  Incarnation to_incarnation = 0;
  FoundingId founding = 0;  // of the record that the sender accepted; 0: none
};

// Where one fragment stands at the sender.
struct FragmentReport {
  bool holds = false;    // the outer state is here
  bool offered = false;  // the trainer's first values are still here and may stand in for round 0
  StateId committed;
  // The newest COMPLETE sent and not yet decided, by the state it would make.
  bool complete = false;
  Epoch complete_epoch;
  RoundNumber complete_round = 0;
  Attempt complete_attempt = 0;
  Hash256 complete_chain{};
  // Highest attempt seen of round committed+1 in the accepted record's epoch.
  bool attempt_seen = false;
  Attempt attempt = 0;
};

// The local trainer came with more tensors than the run has.
struct Growth {
  Hash256 from{};  // the run's schema, which this one extends
  SchemaId schema;
  Hash256 parameters{};  // of the new ones
  bool operator==(const Growth&) const = default;
};

// What a gateway tells about itself, in heartbeats and promises.
struct Report {
  Epoch promised;
  Epoch accepted;  // epoch of the accepted record; None: none
  bool blank = true;
  bool kept_memory = false;  // no restart since that record was accepted
  bool installed = false;
  bool active = false;      // takes part in rounds of `accepted`
  bool wants_join = false;  // would be a member, and is caught up or on its way
  bool fetching = false;    // a state is on its way here
  bool leaving = false;
  std::optional<bool> stop;        // the operator's wish here, until a record fulfils it
  bool approves_rollback = false;  // the operator here does, until the next epoch
  bool draining = false;           // the leader asks not to begin new operations
  std::optional<Growth> growth;    // wished for here
  ClusterSet suspected;            // not heard for peer_timeout
  Hash256 parameters{};  // what the local trainer came with, where a fragment is `offered`
  std::vector<FragmentReport> fragments;
};

// First word of a connection, repeated until the sender is a member. A difference of digests is
// refused here; which tensor or key differs is found by the daemon from the lists it exchanges.
struct Join {
  bool schema_known = false;  // a local trainer has joined, or an accepted record names them
  Hash256 schema{};
  Hash256 algorithm{};
  uint32_t fragments = 0;
  bool has_parameters = false;
  Hash256 parameters{};  // of the local trainer's parameters: equal hashes move zero bytes
  bool virgin = false;   // no accepted record on this disk
  Epoch promised;
};

struct Heartbeat {
  Report report;
};

// The sender's trainer waits with an operation for this round. For status and deadlines only.
struct Ready {
  FragmentId fragment = 0;
  RoundNumber round = 0;
};

// The sender's bytes for this round follow on the lanes. One per cluster, round and epoch.
struct Contribution {
  FragmentId fragment = 0;
  RoundNumber round = 0;  // base is round - 1
  OpId op;
  Weight weight = 0;
  PlanId plan = 0;
};

// To the leader: no trainer stands behind the sender's contribution any more, and the sender will
// not COMPLETE this attempt.
struct Withdraw {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Attempt attempt = 0;
  bool ready = false;  // an operation waits all the same
};

// From the leader: the next attempt and exactly whose contributions count. May name nobody.
struct Cut {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Attempt attempt = 0;
  std::vector<Contributor> contributors;  // ascending cluster, subset of the members
};

struct Complete {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Attempt attempt = 0;
  Hash256 result{};          // over the combined result
  Hash256 previous_state{};  // over the outer state of round - 1
  Hash256 chain{};           // the state that the commit would make
};

// Answers a COMPLETE of a round already decided. Sufficient by itself.
struct Committed {
  CommitRecord record;
};

// From the leader: how contributions to rounds from `from_round` on are encoded. Sticky until a
// later plan. `body` is opaque to the engine. A contribution names its plan, so members need not
// switch at the same time; one whose plan is not known yet waits.
struct Plan {
  PlanId id = 0;
  RoundNumber from_round = 0;
  std::string body;  // at most kPlanBytesMax
};

struct PreVote {};
struct Grant {};

struct Prepare {
  bool founding = false;  // every voter reported a virgin disk
};

struct Promise {
  Report report;
  std::optional<Record> accepted;
};

struct Install {
  Record record;
};

struct Accepted {};
struct Installed {};

// Asks a donor what it holds of a fragment, and for the records above `have`.
struct Fetch {
  FragmentId fragment = 0;
  bool holds = false;
  StateId have;
};

// What the donor holds. It serves this state on request of the data plane until it moves on.
struct State {
  FragmentId fragment = 0;
  StateId state;
  std::vector<CommitRecord> records;  // newest last, at most kCommitRecordsKept
};

using Message =
    std::variant<Join, Heartbeat, Ready, Contribution, Withdraw, Cut, Complete, Committed, Plan,
                 PreVote, Grant, Prepare, Promise, Install, Accepted, Installed, Fetch, State>;

struct Envelope {
  Header header;
  Message message;
};

const char* MessageName(const Message& message);
std::string Describe(const Envelope& envelope);  // one line, for traces and debug logs

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_MESSAGE_H_
