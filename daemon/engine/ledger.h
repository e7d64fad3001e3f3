// What is committed on this gateway, per fragment, and what that means for the trainer's operation
// and for the retained contribution (whose pending residual moves only on a commit that counted
// it).
//
// Confined to the engine. Knows nothing of open rounds, peers or epochs: it is told that a state
// was committed, jumped to or relabelled, and draws the consequences. Rejected alternative: let
// rounds and catch-up each resolve operations; two places would then have to agree on "counted
// exactly once".
#ifndef CAUSEWAY_DAEMON_ENGINE_LEDGER_H_
#define CAUSEWAY_DAEMON_ENGINE_LEDGER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/context.h"
#include "daemon/engine/event.h"

namespace causeway::engine {

// The trainer's unread operation.
struct Operation {
  OpId op;
  StateId base;
  Weight weight = 0;
  OpState state = OpState::kPending;
  ClusterSet awaited;
  std::string reason;
  std::optional<FragmentId> wanted;
  bool Waits() const { return state == OpState::kPending || state == OpState::kStalled; }
};

// The encoded contribution that the data plane keeps for this gateway until its round is decided.
struct Retained {
  Contributor part;  // cluster self
  Lineage lineage = 0;
  RoundNumber round = 0;
  uint64_t session = 0;  // the trainer that stands behind it
};

struct Standing {
  FragmentId id = 0;
  bool holds = false;    // the outer state is here
  bool offered = false;  // the trainer's first values are still with the data plane
  // From disk, and this process has committed nothing since: what its former lives sent may still
  // turn out to have counted, and the restored residual to be of another round.
  bool restored = false;
  StateId committed;
  std::vector<CommitRecord> records;  // newest last; a gapless suffix of the chain
  std::optional<Operation> op;
  std::optional<Retained> own;
  std::optional<RoundNumber> applied;  // the round that the trainer stands on; nullopt: not known
};

class Ledger {
 public:
  explicit Ledger(Context& context) : context_(context) {}

  uint32_t size() const { return static_cast<uint32_t>(standings_.size()); }
  Standing& operator[](FragmentId id) { return standings_[id]; }
  const Standing& operator[](FragmentId id) const { return standings_[id]; }
  void Resize(uint32_t fragments);
  void Load(const HeldFragment& held);

  // `record` extends what is committed by one round.
  void Commit(FragmentId id, const CommitRecord& record);
  // The staged state replaces what is here. `records` are those that lead to it, as far as known.
  void Jump(FragmentId id, const StateId& state, const std::vector<CommitRecord>& records,
            bool from_trainer);
  // The same value under a new lineage.
  void Relabel(FragmentId id, Lineage lineage);
  // A rollback undid what is here: a Jump to `base` has to follow. Until then the old value stays,
  // because a later rollback may need it.
  void Undo(FragmentId id, const StateId& base);

  void Submit(const engine::Submit& submit);
  // An epoch is in force: answers what had to wait for that.
  void Settle(FragmentId id);
  // A trainer has come or gone: nobody waits for earlier operations any more. `offers`: it brought
  // parameters, which last until its first submission of each fragment.
  void ChangeTrainer(bool offers);
  // Reports a change of what a waiting operation waits for; quiet when nothing changed.
  void SetWaiting(FragmentId id, OpState state, ClusterSet awaited, std::string_view reason,
                  std::optional<FragmentId> wanted);
  std::optional<OpChanged> Find(FragmentId id, OpId op) const;

  const CommitRecord* RecordOf(FragmentId id, RoundNumber round) const;

 private:
  bool Decided(const Standing& standing) const;
  bool Counted(const CommitRecord& record, OpId op) const;
  bool NoneCountedSince(const Standing& standing, RoundNumber round) const;
  void Remember(Standing& standing, const CommitRecord& record);
  // Whether the operation's base lies on the chain of what is committed; completes its chain hash.
  bool BaseOnChain(const Standing& standing, StateId* base) const;
  void ResolveOperation(Standing& standing);
  OwnPart ResolveOwn(Standing& standing, OpId* op, bool* known);
  void Finish(Standing& standing, OpState state, RoundNumber round, std::string reason);
  void ReleaseOwn(Standing& standing);

  Context& context_;
  std::vector<Standing> standings_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_LEDGER_H_
