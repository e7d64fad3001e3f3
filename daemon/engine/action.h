// What the engine asks of the daemon (or the simulator). To be carried out in the order given.
//
// Order matters in one place only: what follows a Persist in the same batch does not depend on it;
// the engine itself holds back whatever must wait until Persisted(token) comes.
#ifndef CAUSEWAY_DAEMON_ENGINE_ACTION_H_
#define CAUSEWAY_DAEMON_ENGINE_ACTION_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/message.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

struct Send {
  ClusterId to = 0;
  Envelope envelope;
};

// Write `durable` so that it survives a power cut, then report Persisted(token). Tokens ascend; a
// later one supersedes an earlier one, so writes may be merged.
struct Persist {
  uint64_t token = 0;
  Durable durable;
};

// Encode the snapshot of `op` once (reading the committed residual, writing a pending one), retain
// the bytes until ReleaseRetained, and send them to `to`.
struct StartContribution {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Lineage lineage = 0;
  Epoch epoch;
  OpId op;
  Weight weight = 0;
  PlanId plan = 0;
  ClusterSet to;
};

// The same retained bytes again, under a new epoch, or to members that lack them. Never re-encoded.
struct ResendContribution {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Lineage lineage = 0;
  Epoch epoch;
  OpId op;
  Weight weight = 0;
  PlanId plan = 0;
  ClusterSet to;
};

// Combine exactly these contributions, in this order, and report ResultHeld. A newer attempt of the
// round replaces an older one. An empty list: the round leaves the fragment unchanged.
struct Reduce {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Lineage lineage = 0;
  Epoch epoch;
  Attempt attempt = 0;
  std::vector<Contributor> contributors;
};

// What became of this cluster's own retained contribution.
enum class OwnPart {
  kNone,      // there was none
  kCounted,   // its pending residual becomes the committed one
  kExcluded,  // its pending residual is dropped
};

// The round is decided: apply the held result of (epoch, attempt), deliver it, append the record.
struct Commit {
  CommitRecord record;
  OwnPart own = OwnPart::kNone;
  OpId own_op;  // the contribution that `own` speaks of
};

// Data and results of these attempts will never be used: all of the round's in `epoch` up to and
// including `attempt`. Own retained bytes stay.
struct DropAttempts {
  FragmentId fragment = 0;
  RoundNumber round = 0;
  Epoch epoch;
  Attempt attempt = 0;
};

// The own retained bytes and the pending residual of this operation are free.
struct ReleaseRetained {
  FragmentId fragment = 0;
  OpId op;
};

// Stage this state from any of the donors; then StateHeld. A newer one for the fragment replaces
// it.
struct FetchState {
  FragmentId fragment = 0;
  StateId state;
  ClusterSet donors;
};

// The staged (or, with `from_trainer`, the local trainer's) value becomes the outer state. Trainers
// are told to take it unless they already hold it.
struct AdoptState {
  FragmentId fragment = 0;
  StateId state;
  bool from_trainer = false;  // seeding: the local parameters are the run's
  bool forward = false;  // extends what was here: the committed residual stays. Else it is zero
  OwnPart own = OwnPart::kNone;  // of a retained contribution to a round in between
  OpId own_op;
};

// Commits were undone by agreement: the fragment continues from `to` in a new lineage. The bytes
// at `to` are here already when `holds`; else a FetchState follows. Residual and pending one: zero.
struct RolledBack {
  FragmentId fragment = 0;
  StateId from;
  StateId to;
  bool holds = false;
};

enum class OpState {
  kPending,
  kStalled,    // no quorum, or a fenced membership: resumes by itself
  kCommitted,  // counted once, everywhere
  kExcluded,   // counted nowhere; the global value advanced
  kFailed,     // counted nowhere; nothing of it left this gateway or a record excludes it
  kRebase,     // its base is not known here any more: take the global value
};
const char* OpStateName(OpState state);

// The trainer's operation changed state, or the set it waits for did.
struct OpChanged {
  FragmentId fragment = 0;
  OpId op;
  OpState state = OpState::kPending;
  RoundNumber round = 0;
  ClusterSet awaited;  // clusters that are waited for, while pending or stalled
  std::string reason;
  // Meanwhile those wait for this cluster's work on another fragment, so it must not wait for them.
  std::optional<FragmentId> wanted;
};

// A membership is in force from now on (INSTALLED, and this gateway takes part in it).
struct EpochInstalled {
  Record record;
};

// The run has its first record.
struct RunFormed {
  Record record;
  ClusterId seed = 0;  // whose parameters are the run's
};

// This gateway takes no part in rounds until the next epoch. For status and metrics.
struct Fenced {
  Epoch promised;
  std::string reason;
};

enum class FatalKind { kHashMismatch, kSchema, kAlgorithm, kIdentity, kProtocol };
const char* FatalKindName(FatalKind kind);

// The run cannot go on here. The engine takes no part in rounds afterwards.
struct Fatal {
  FatalKind kind = FatalKind::kProtocol;
  ClusterId cluster = 0;  // who differs
  FragmentId fragment = 0;
  RoundNumber round = 0;
  std::string detail;
};

// The run can only go on by undoing commits; the operator decides (ApproveRollback).
struct RollbackNeeded {
  ClusterSet missing;       // voters and members that could still make it unnecessary
  bool restorable = false;  // false: nobody who was heard holds every fragment; approval is no help
};

// Contributions that name this plan may come from now on. It replaces what was known by its id.
struct PlanKnown {
  Plan plan;
  std::optional<ClusterId> told_by;  // nullopt: by a leader, so new contributions may follow it
};

// The local trainer's digests differ from those of `cluster` (or of the run, when `cluster` is
// self): its join is refused. Which tensor or key differs is found from the lists that the daemons
// exchange.
struct JoinRefused {
  uint64_t session = 0;
  FatalKind kind = FatalKind::kSchema;
  ClusterId cluster = 0;
};

// `cluster` holds this run as it was founded another time: a disk was put back, or it missed that
// the run was forgotten. Nothing that it says is heard until it has forgotten that state.
struct ForeignRun {
  ClusterId cluster = 0;
};

// Worth a line in the log. `warning`: for the operator's eyes.
struct Note {
  std::string text;
  bool warning = false;
};

using Action = std::variant<Send, Persist, StartContribution, ResendContribution, Reduce, Commit,
                            DropAttempts, ReleaseRetained, FetchState, AdoptState, RolledBack,
                            OpChanged, EpochInstalled, RunFormed, Fenced, Fatal, RollbackNeeded,
                            PlanKnown, JoinRefused, ForeignRun, Note>;

std::string Describe(const Action& action);  // one line, for traces and debug logs

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_ACTION_H_
