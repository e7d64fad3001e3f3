// COMPLETE, COMMITTED and what an INSTALLED record decides.
#include <cassert>

#include "daemon/engine/chain.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {

void Rounds::OnResultHeld(const ResultHeld& held) {
  assert(held.fragment < open_.size());
  Open& open = open_[held.fragment];
  if (!OpenRound(held.fragment)) return;
  if (held.epoch != open.epoch || held.round != open.round || held.attempt != open.attempt) return;
  open.result = held;
  Advance(held.fragment);
}

void Rounds::TryComplete(FragmentId id) {
  Open& open = open_[id];
  if (!open.result || open.result->attempt != open.attempt) return;
  if (open.completed && *open.completed >= open.attempt) return;
  if (open.withdrawn && *open.withdrawn >= open.attempt) return;
  if (TrainerLags(id)) return;
  SentComplete sent;
  CommitRecord& record = sent.record;
  record.fragment = id;
  record.state = {open.lineage, open.round, {}};
  record.epoch = open.epoch;
  record.attempt = open.attempt;
  if (open.attempt == 0) {
    for (ClusterId cluster : open.contributors) record.contributors.push_back(open.parts[cluster]);
  } else {
    record.contributors = open.named;
  }
  record.result = open.result->result;
  record.previous_chain = ledger_[id].committed.chain;
  record.state.chain = CommitChain(context_.config, record);
  sent.previous_state = open.result->previous_state;
  sent.members = context_.record().members;
  open.sent = std::move(sent);
  open.completed = open.attempt;
  for (ClusterId to : context_.Others()) SendComplete(id, to);
  CheckVotes(id);
}

// The trainer stands on a value that this round's would overwrite: it is given the time to take the
// newer one first. Only a round that went on without it can come to this.
bool Rounds::TrainerLags(FragmentId id) const {
  const Standing& standing = ledger_[id];
  return context_.trainer.present && standing.applied &&
         *standing.applied < standing.committed.round &&
         !context_.config.Planted(PlantedFault::kOverwriteBase);
}

void Rounds::SendComplete(FragmentId id, ClusterId to) {
  const Open& open = open_[id];
  if (!open.sent || !open.sent->members.Contains(to)) return;
  const CommitRecord& record = open.sent->record;
  context_.SendIn(to, record.epoch, record.state.lineage,
                  Complete{id, record.state.round, record.attempt, record.result,
                           open.sent->previous_state, record.state.chain});
}

void Rounds::OnComplete(ClusterId from, const Header& header, const Complete& body) {
  const Standing& standing = ledger_[body.fragment];
  if (!standing.holds) return;
  if (header.lineage == standing.committed.lineage && body.round <= standing.committed.round) {
    Answer(from, body.fragment, body.round);
    return;
  }
  Open& open = open_[body.fragment];
  open.votes.Add({from, header.epoch, header.lineage, body.round, body.attempt, body.result,
                  body.previous_state, body.chain});
  CheckVotes(body.fragment);
  DescribeWaiting(body.fragment);
}

// Equal results, from equal values, by equal contributions. Else the run stops here.
bool Rounds::SameResult(FragmentId id, const Vote& vote) {
  const SentComplete& sent = *open_[id].sent;
  const char* what = nullptr;
  if (vote.previous_state != sent.previous_state) {
    what = "the global value before the round differs";
  } else if (vote.result != sent.record.result) {
    what = "the combined result differs";
  } else if (vote.chain != sent.record.state.chain) {
    what = "the history or the set of contributions differs";
  }
  if (!what) return true;
  context_.stopped = true;
  context_.Act(Fatal{FatalKind::kHashMismatch, vote.from, id, vote.round, what});
  return false;
}

void Rounds::CheckVotes(FragmentId id) {
  Open& open = open_[id];
  if (!open.sent || context_.stopped) return;
  const CommitRecord& record = open.sent->record;
  ClusterSet missing = open.sent->members;
  missing.Erase(context_.self());
  for (ClusterId member : missing) {
    const Vote* vote = open.votes.Find(member, record.epoch, record.state.lineage,
                                       record.state.round, record.attempt);
    if (!vote) continue;
    if (!SameResult(id, *vote)) return;
    missing.Erase(member);
  }
  if (missing.Empty()) CommitSent(id);
}

// The COMPLETE of this gateway is decided: committed.
void Rounds::CommitSent(FragmentId id) {
  Open& open = open_[id];
  const CommitRecord record = open.sent->record;
  const Standing& standing = ledger_[id];
  const bool frozen = context_.frozen && !context_.config.Planted(PlantedFault::kSkipFence);
  if (frozen || context_.stopped || !standing.holds) return;
  if (record.state.lineage != standing.committed.lineage ||
      record.previous_chain != standing.committed.chain) {
    return;
  }
  open.sent.reset();
  open.votes.Forget(record.state.lineage, record.state.round);
  ledger_.Commit(id, record);
  Advance(id);
}

void Rounds::DropSent(FragmentId id) {
  Open& open = open_[id];
  if (!open.sent) return;
  const CommitRecord& record = open.sent->record;
  context_.Act(DropAttempts{id, record.state.round, record.epoch, record.attempt});
  open.sent.reset();
}

void Rounds::Answer(ClusterId to, FragmentId id, RoundNumber round) {
  const CommitRecord* record = ledger_.RecordOf(id, round);
  if (!record) return;
  context_.SendIn(to, record->epoch, ledger_[id].committed.lineage, Committed{*record});
}

void Rounds::OnCommitted(const Header& header, const Committed& body) {
  const FragmentId id = body.record.fragment;
  const Standing& standing = ledger_[id];
  if (!standing.holds || header.lineage != standing.committed.lineage) return;
  OnRecords(id, {body.record});
}

void Rounds::OnRecords(FragmentId id, const std::vector<CommitRecord>& records) {
  for (const CommitRecord& record : records) {
    const Open& open = open_[id];
    if (open.sent && open.sent->record.state.chain == record.state.chain) CommitSent(id);
  }
}

void Rounds::OnReport(ClusterId, const Report& report) {
  const size_t known = std::min<size_t>(report.fragments.size(), open_.size());
  for (FragmentId id = 0; id < known; ++id) {
    const FragmentReport& theirs = report.fragments[id];
    const Open& open = open_[id];
    if (theirs.holds && open.sent && theirs.committed.chain == open.sent->record.state.chain) {
      CommitSent(id);
    }
  }
}

void Rounds::Adopt() {
  Resize(static_cast<uint32_t>(context_.record().base.size()));
  for (FragmentId id = 0; id < context_.record().base.size(); ++id) {
    AdoptBase(id);
    ledger_.Settle(id);
  }
  AdvanceAll();
}

// Where this gateway stands against the base that the new epoch agreed on.
void Rounds::AdoptBase(FragmentId id) {
  const Record& record = context_.record();
  const FragmentBase& base = record.base[id];
  Open& open = open_[id];
  Standing& standing = ledger_[id];
  if (standing.holds && standing.committed.chain == base.chain) {
    DropSent(id);  // in doubt above the base: aborted, the same bytes go again
    if (standing.committed.lineage != record.lineage) ledger_.Relabel(id, record.lineage);
  } else if (standing.holds && standing.committed.lineage == record.lineage && open.sent &&
             open.sent->record.state.chain == base.chain) {
    CommitSent(id);
  } else if (standing.holds && standing.committed.lineage != record.lineage) {
    DropSent(id);
    ledger_.Undo(id, {record.lineage, base.round, base.chain});
  } else {
    DropSent(id);  // behind: catch-up brings the value
  }
}

void Rounds::OnJump(FragmentId id) {
  Open& open = open_[id];
  const StateId& committed = ledger_[id].committed;
  if (open.sent && (open.sent->record.state.lineage != committed.lineage ||
                    open.sent->record.state.round <= committed.round)) {
    DropSent(id);
  }
  open.votes.Forget(committed.lineage, committed.round);
  Advance(id);
}

// Trainers that launch fragments in different orders can wait for each other: this cluster's for
// the round of `id`, and those that it awaits, directly or through others, for this cluster's work
// on another fragment. That fragment, where it is a lower one: each such circle has one of these,
// and were more of its members to give way, they would be out of step the other way round.
std::optional<FragmentId> Rounds::Wanted(FragmentId id) const {
  ClusterSet blocked = open_[id].contributors - open_[id].announced;
  for (bool more = true; more;) {
    more = false;
    for (FragmentId other = 0; other < open_.size(); ++other) {
      const Open& open = open_[other];
      const StateId& committed = ledger_[other].committed;
      const bool current = HoldsBase(other) && Current(open, context_.record().epoch,
                                                       committed.lineage, committed.round + 1);
      if (other == id || !current || (open.announced & blocked).Empty()) continue;
      ClusterSet absent = open.contributors - open.announced;
      const bool missed = absent.Contains(context_.self()) && !OperationWaits(other);
      if (missed && other < id) return other;
      absent.Erase(context_.self());
      more = more || !blocked.ContainsAll(absent);
      blocked = blocked | absent;
    }
  }
  return std::nullopt;
}

// Tells the waiting operation, and through it the operator, who is waited for.
void Rounds::DescribeWaiting(FragmentId id) {
  const Standing& standing = ledger_[id];
  if (!standing.op || !standing.op->Waits()) return;
  const Open& open = open_[id];
  const ClusterSet alive = context_.peers.AliveSet(context_.now);
  ClusterSet awaited;
  std::optional<FragmentId> wanted;
  const char* reason = "";
  if (open.sent) {
    const CommitRecord& record = open.sent->record;
    awaited = open.sent->members;
    awaited.Erase(context_.self());
    for (ClusterId member : awaited) {
      if (open.votes.Find(member, record.epoch, record.state.lineage, record.state.round,
                          record.attempt)) {
        awaited.Erase(member);
      }
    }
    reason = "complete here; outcome known when the others say so";
  } else if (context_.Active() && !context_.record().stopped && HoldsBase(id)) {
    awaited = open.contributors - open.announced;
    reason = "awaits contributions";
    wanted = Wanted(id);
    if (awaited.Empty()) {
      awaited = open.contributors;
      awaited.Erase(context_.self());
      reason = "awaits data";
    }
  } else {
    const ClusterSet voters =
        context_.HasRecord() ? context_.record().electorate.voters : ClusterSet();
    awaited = voters - alive;
    reason = context_.stopped ? "the run has stopped" : "awaits an agreed membership";
    if (context_.Active() && context_.record().stopped) {
      awaited = {};
      reason = "the run was stopped by its operator";
    }
  }
  const bool stalled =
      !context_.Active() || context_.record().stopped || !(awaited - alive).Empty();
  ledger_.SetWaiting(id, stalled ? OpState::kStalled : OpState::kPending, awaited, reason, wanted);
}

void Rounds::FillStatus(std::vector<FragmentStatus>* statuses) const {
  statuses->resize(open_.size());
  for (FragmentId id = 0; id < open_.size(); ++id) {
    const Open& open = open_[id];
    const Standing& standing = ledger_[id];
    FragmentStatus& status = (*statuses)[id];
    status.holds = standing.holds;
    status.committed = standing.committed;
    status.round = standing.committed.round + 1;
    const bool current = context_.HasRecord() && Current(open, context_.record().epoch,
                                                         standing.committed.lineage, status.round);
    if (current) {
      status.attempt = open.attempt;
      status.contributors = open.contributors;
      status.announced = open.announced;
      status.phase = open.announced.Empty() ? RoundPhase::kIdle : RoundPhase::kOpen;
    }
    if (open.sent) {
      const CommitRecord& record = open.sent->record;
      status.phase = RoundPhase::kComplete;
      status.attempt = record.attempt;
      status.completed.Insert(context_.self());
      for (ClusterId member : open.sent->members) {
        if (open.votes.Find(member, record.epoch, record.state.lineage, record.state.round,
                            record.attempt)) {
          status.completed.Insert(member);
        }
      }
    }
    if (standing.own) status.own_op = standing.own->part.op;
  }
}

}  // namespace causeway::engine
