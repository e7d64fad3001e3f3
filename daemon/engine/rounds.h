// Rounds within an installed epoch (see ROUNDS.md): contributions, withdrawals, cuts, COMPLETE
// and commit, for all fragments of the run.
//
// Confined to the engine. Acts only while the context is Active; commits only while it is not
// frozen. Membership is given: it changes only through Adopt, when a record is INSTALLED.
#ifndef CAUSEWAY_DAEMON_ENGINE_ROUNDS_H_
#define CAUSEWAY_DAEMON_ENGINE_ROUNDS_H_

#include <optional>
#include <vector>

#include "daemon/engine/arrivals.h"
#include "daemon/engine/context.h"
#include "daemon/engine/event.h"
#include "daemon/engine/ledger.h"
#include "daemon/engine/plans.h"
#include "daemon/engine/status.h"
#include "daemon/engine/votes.h"

namespace causeway::engine {

// The newest word of a member about a round, kept until that round opens here: announcements may
// overtake the commit or the INSTALLED that opens it.
template <typename Body>
struct Word {
  Epoch epoch;
  Lineage lineage = 0;
  Body body;
};

class Rounds {
 public:
  Rounds(Context& context, Ledger& ledger, const Plans& plans)
      : context_(context), ledger_(ledger), plans_(plans) {}

  void Resize(uint32_t fragments);

  // The accepted record is INSTALLED: settles what was in doubt by its bases, then opens rounds.
  void Adopt();
  // The fragment's committed state was replaced from outside (catch-up).
  void OnJump(FragmentId id);
  // Something changed that may let the round go on: an operation, a trainer, the draining flag.
  void Advance(FragmentId id);
  void AdvanceAll();
  void OnTimer();  // deadlines

  void OnContribution(ClusterId from, const Header& header, const Contribution& body);
  void OnReady(ClusterId from, const Header& header, const Ready& body);
  void OnWithdraw(ClusterId from, const Header& header, const Withdraw& body);
  void OnCut(ClusterId from, const Header& header, const Cut& body);
  void OnComplete(ClusterId from, const Header& header, const Complete& body);
  void OnCommitted(const Header& header, const Committed& body);
  void OnReport(ClusterId from, const Report& report);
  void OnResultHeld(const ResultHeld& held);

  // Says again what `to` may have missed.
  void Repeat(ClusterId to);

  // Whether the value that the accepted record builds on, or a later one of its lineage, is here.
  bool HoldsBase(FragmentId id) const;
  uint32_t size() const { return static_cast<uint32_t>(open_.size()); }
  // A COMPLETE of this gateway is undecided.
  bool Undecided(FragmentId id) const { return open_[id].sent.has_value(); }
  size_t votes(FragmentId id) const { return open_[id].votes.size(); }
  void FillReport(std::vector<FragmentReport>* reports) const;
  void FillStatus(std::vector<FragmentStatus>* statuses) const;
  Time NextDeadline() const;
  // Records that resolve what this gateway has in doubt, without moving any state.
  void OnRecords(FragmentId id, const std::vector<CommitRecord>& records);
  void DescribeWaiting(FragmentId id);

 private:
  struct SentComplete {
    CommitRecord record;  // the commit that it would make
    Hash256 previous_state{};
    ClusterSet members;
  };

  struct Open {
    Epoch epoch;  // None: nothing open
    Lineage lineage = 0;
    RoundNumber round = 0;
    Attempt attempt = 0;
    ClusterSet contributors;
    std::vector<Contributor> named;    // attempt > 0: exactly these
    ClusterSet announced;              // whose entry in `parts` is valid
    std::vector<Contributor> parts;    // by cluster
    std::optional<Attempt> withdrawn;  // by this gateway
    std::optional<Attempt> reducing;
    std::optional<ResultHeld> result;
    std::optional<Attempt> completed;
    Time opened = 0;
    Time first_announced = kNever;
    bool all_announced = false;  // once, in attempt 0: how long the last one took is known
    // The leader's view.
    ClusterSet gone;             // no trainer stands behind their contribution
    ClusterSet ready;            // their trainer waits with an operation
    bool withdraw_held = false;  // for the current attempt

    std::optional<SentComplete> sent;  // survives the epoch until decided
    VoteBox votes;
    std::vector<std::optional<Word<Contribution>>> contribution_words;
    std::vector<std::optional<Word<Withdraw>>> withdraw_words;
    std::vector<std::optional<Word<Ready>>> ready_words;
    std::optional<Word<Cut>> cut_word;
  };

  bool OpenRound(FragmentId id);
  bool Current(const Open& open, const Epoch& epoch, Lineage lineage, RoundNumber round) const;
  void TakeWords(FragmentId id);
  void TakePart(Open& open, ClusterId from, const Contribution& body);
  void NoteArrivals(Open& open);
  bool TrainerStands(FragmentId id) const;
  bool OperationWaits(FragmentId id) const;
  std::optional<FragmentId> Wanted(FragmentId id) const;
  bool TrainerLags(FragmentId id) const;
  void Contribute(FragmentId id);
  void WithdrawIfOrphaned(FragmentId id);
  void ApplyWithdraw(Open& open, ClusterId from, const Withdraw& body);
  void LeadCut(FragmentId id);
  void SendCut(FragmentId id, ClusterSet named);
  bool CutDue(const Open& open) const;
  void ApplyCut(FragmentId id, const Cut& cut);
  void Reduce(FragmentId id);
  void TryComplete(FragmentId id);
  void SendComplete(FragmentId id, ClusterId to);
  void CheckVotes(FragmentId id);
  bool SameResult(FragmentId id, const Vote& vote);
  void CommitSent(FragmentId id);
  void DropSent(FragmentId id);
  void Answer(ClusterId to, FragmentId id, RoundNumber round);
  void AdoptBase(FragmentId id);

  Context& context_;
  Ledger& ledger_;
  const Plans& plans_;
  Arrivals arrivals_;
  std::vector<Open> open_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_ROUNDS_H_
