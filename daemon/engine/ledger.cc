// An operation is judged by the commit record of the round after its base, never by what was sent.
#include "daemon/engine/ledger.h"

#include <cassert>
#include <utility>

namespace causeway::engine {

void Ledger::Resize(uint32_t fragments) {
  assert(fragments <= kFragmentsMax);
  const uint32_t before = size();
  standings_.resize(fragments);
  const TrainerSeat& trainer = context_.trainer;
  for (FragmentId id = before; id < fragments; ++id) {
    standings_[id].id = id;
    standings_[id].offered = trainer.present && trainer.has_parameters && id < trainer.fragments;
  }
}

void Ledger::Load(const HeldFragment& held) {
  assert(held.fragment < kFragmentsMax);
  if (held.fragment >= size()) Resize(held.fragment + 1);
  Standing& standing = standings_[held.fragment];
  standing.holds = true;
  standing.restored = true;
  standing.committed = held.state;
  for (const CommitRecord& record : held.records) Remember(standing, record);
}

// What does not lead to the new record, as rounds of a lineage that ended, is forgotten.
void Ledger::Remember(Standing& standing, const CommitRecord& record) {
  std::vector<CommitRecord>& records = standing.records;
  for (const CommitRecord& known : records) {
    if (known.state.chain == record.state.chain) return;
  }
  while (!records.empty() && records.back().state.chain != record.previous_chain) {
    records.pop_back();
  }
  if (records.size() >= kCommitRecordsKept) records.erase(records.begin());
  records.push_back(record);
}

const CommitRecord* Ledger::RecordOf(FragmentId id, RoundNumber round) const {
  for (const CommitRecord& record : standings_[id].records) {
    if (record.state.round == round) return &record;
  }
  return nullptr;
}

bool Ledger::Counted(const CommitRecord& record, OpId op) const {
  for (const Contributor& part : record.contributors) {
    if (part.cluster == context_.self() && part.op == op) return true;
  }
  return false;
}

// The kept records show that no round after `round` counted what a former life of this gateway
// sent.
bool Ledger::NoneCountedSince(const Standing& standing, RoundNumber round) const {
  for (RoundNumber next = round + 1; next <= standing.committed.round; ++next) {
    const CommitRecord* record = RecordOf(standing.id, next);
    if (!record) return false;
    for (const Contributor& part : record->contributors) {
      const bool retained = standing.own && standing.own->part == part;
      if (part.cluster == context_.self() && !retained) return false;
    }
  }
  return true;
}

// What the record of its round says about the retained contribution, which is then free.
OwnPart Ledger::ResolveOwn(Standing& standing, OpId* op, bool* known) {
  *known = true;
  if (!standing.own) return OwnPart::kNone;
  const Retained own = *standing.own;
  if (own.lineage == standing.committed.lineage && own.round > standing.committed.round) {
    return OwnPart::kNone;
  }
  *op = own.part.op;
  standing.own.reset();
  const CommitRecord* record = RecordOf(standing.id, own.round);
  if (!record || record->state.lineage != own.lineage) {
    *known = false;
    return OwnPart::kExcluded;
  }
  if (context_.config.Planted(PlantedFault::kResidualOnExclude)) return OwnPart::kCounted;
  for (const Contributor& part : record->contributors) {
    if (part == own.part) return OwnPart::kCounted;
  }
  return OwnPart::kExcluded;
}

void Ledger::ReleaseOwn(Standing& standing) {
  if (!standing.own) return;
  context_.Act(ReleaseRetained{standing.id, standing.own->part.op});
  standing.own.reset();
}

void Ledger::Commit(FragmentId id, const CommitRecord& record) {
  Standing& standing = standings_[id];
  assert(standing.holds && record.previous_chain == standing.committed.chain);
  assert(record.state.round == standing.committed.round + 1);
  assert(record.state.lineage == standing.committed.lineage);
  standing.committed = record.state;
  ++context_.moves;
  standing.restored = false;
  Remember(standing, record);
  engine::Commit commit{record, OwnPart::kNone, {}};
  bool known = true;
  commit.own = ResolveOwn(standing, &commit.own_op, &known);
  assert(known);
  context_.Act(std::move(commit));
  ResolveOperation(standing);
}

void Ledger::Jump(FragmentId id, const StateId& state, const std::vector<CommitRecord>& records,
                  bool from_trainer) {
  Standing& standing = standings_[id];
  const StateId before = standing.committed;
  AdoptState adopt{id, state, from_trainer, false, OwnPart::kNone, {}};
  adopt.forward = standing.holds && before.lineage == state.lineage && before.round < state.round;
  standing.holds = true;
  standing.committed = state;
  // Its trainer takes this value and submits work on it: what it brought may go at any moment, so a
  // promise may not offer it.
  if (!from_trainer) standing.offered = false;
  ++context_.moves;
  for (const CommitRecord& record : records) {
    if (record.state.round <= state.round) Remember(standing, record);
  }
  if (!standing.records.empty() && standing.records.back().state.chain != state.chain) {
    standing.records.clear();
  }
  // What this gateway sent before its restart may have counted since, with a residual that is lost.
  if (standing.restored && !NoneCountedSince(standing, before.round) &&
      !context_.config.Planted(PlantedFault::kStaleResidual)) {
    adopt.forward = false;
  }
  if (!adopt.forward) standing.restored = false;
  if (adopt.forward) {
    bool known = true;
    adopt.own = ResolveOwn(standing, &adopt.own_op, &known);
    if (!known) adopt.forward = false;  // it may have counted: only a zero residual is safe
  } else {
    ReleaseOwn(standing);
  }
  context_.Act(adopt);
  ResolveOperation(standing);
}

void Ledger::Relabel(FragmentId id, Lineage lineage) {
  Standing& standing = standings_[id];
  const StateId from = standing.committed;
  standing.committed.lineage = lineage;
  ReleaseOwn(standing);
  context_.Act(RolledBack{id, from, standing.committed, true});
  ResolveOperation(standing);
}

void Ledger::Undo(FragmentId id, const StateId& base) {
  Standing& standing = standings_[id];
  ReleaseOwn(standing);
  context_.Act(RolledBack{id, standing.committed, base, false});
}

bool Ledger::BaseOnChain(const Standing& standing, StateId* base) const {
  const StateId& committed = standing.committed;
  if (IsZero(base->chain)) {
    if (base->lineage == committed.lineage && base->round == committed.round) {
      base->chain = committed.chain;
    }
    for (const CommitRecord& record : standing.records) {
      if (record.state.lineage != base->lineage) continue;
      if (record.state.round == base->round) base->chain = record.state.chain;
      if (record.state.round == base->round + 1) base->chain = record.previous_chain;
    }
  }
  if (base->lineage == committed.lineage) {
    // Only of another founding of the run can the same round be another value, or a later one be
    // known to a trainer.
    if (base->round == committed.round) return base->chain == committed.chain;
    return base->round < committed.round || !Decided(standing);
  }
  if (IsZero(base->chain)) return false;
  if (base->chain == committed.chain) return true;
  for (const CommitRecord& record : standing.records) {
    if (record.previous_chain == base->chain || record.state.chain == base->chain) return true;
  }
  return false;
}

void Ledger::Finish(Standing& standing, OpState state, RoundNumber round, std::string reason) {
  Operation& operation = *standing.op;
  operation.state = state;
  operation.awaited = {};
  operation.reason = std::move(reason);
  context_.Act(OpChanged{standing.id, operation.op, state, round, {}, operation.reason, {}});
}

// An epoch that names this process is in force and what is here extends its base. Before that, what
// was taken over may be of a lineage that ended meanwhile, and a former life of this gateway, whose
// disk is lost, may have contributed in the one that goes on.
bool Ledger::Decided(const Standing& standing) const {
  if (!context_.installed || !context_.Member()) return false;
  const Record& record = context_.record();
  return standing.id < record.base.size() && standing.committed.lineage == record.lineage &&
         standing.committed.round >= record.base[standing.id].round;
}

// That a record names the operation is an answer at any time; that none does, once all is decided.
void Ledger::ResolveOperation(Standing& standing) {
  if (!standing.op || !standing.op->Waits() || !standing.holds) return;
  Operation& operation = *standing.op;
  const bool on_chain = BaseOnChain(standing, &operation.base);
  if (on_chain && operation.base.chain == standing.committed.chain) {
    operation.base.lineage = standing.committed.lineage;
  }
  const RoundNumber round = operation.base.round + 1;
  const CommitRecord* record =
      on_chain && round <= standing.committed.round ? RecordOf(standing.id, round) : nullptr;
  const bool named = record && Counted(*record, operation.op);
  if (!named && !Decided(standing) && !context_.config.Planted(PlantedFault::kAnswersEarly)) return;
  if (!on_chain) {
    Finish(standing, OpState::kRebase, standing.committed.round,
           "the value that it started from was rolled back or is not known here");
    return;
  }
  if (operation.base.round >= standing.committed.round) return;
  if (context_.config.Planted(PlantedFault::kCountDuplicate)) {
    operation.base = standing.committed;
    return;
  }
  if (!record) {
    Finish(standing, OpState::kRebase, standing.committed.round,
           "the record of its round is not kept any more");
  } else if (named) {
    Finish(standing, OpState::kCommitted, round, "counted");
  } else {
    Finish(standing, OpState::kExcluded, round, "the round was decided without it");
  }
}

void Ledger::Submit(const engine::Submit& submit) {
  assert(submit.fragment < size() && !submit.op.None());
  Standing& standing = standings_[submit.fragment];
  standing.offered = false;
  standing.applied = submit.base.round;
  standing.op = Operation{submit.op, submit.base, submit.weight, OpState::kPending, {}, ""};
  // Resubmitted after a restart: the records may know it already.
  for (const CommitRecord& record : standing.records) {
    if (Counted(record, submit.op) && !context_.config.Planted(PlantedFault::kCountDuplicate)) {
      Finish(standing, OpState::kCommitted, record.state.round, "counted");
      return;
    }
  }
  ResolveOperation(standing);
}

void Ledger::Settle(FragmentId id) { ResolveOperation(standings_[id]); }

void Ledger::ChangeTrainer(bool offers) {
  for (Standing& standing : standings_) {
    standing.op.reset();
    standing.applied.reset();
    standing.offered = offers;
  }
}

void Ledger::SetWaiting(FragmentId id, OpState state, ClusterSet awaited, std::string_view reason,
                        std::optional<FragmentId> wanted) {
  Standing& standing = standings_[id];
  if (!standing.op || !standing.op->Waits()) return;
  Operation& operation = *standing.op;
  if (operation.state == state && operation.awaited == awaited && operation.reason == reason &&
      operation.wanted == wanted) {
    return;
  }
  operation.state = state;
  operation.awaited = awaited;
  operation.reason = std::string(reason);
  operation.wanted = wanted;
  context_.Act(OpChanged{id, operation.op, state, operation.base.round + 1, awaited,
                         operation.reason, wanted});
}

std::optional<OpChanged> Ledger::Find(FragmentId id, OpId op) const {
  if (id >= size()) return std::nullopt;
  const Standing& standing = standings_[id];
  if (standing.op && standing.op->op == op) {
    return OpChanged{id,
                     op,
                     standing.op->state,
                     standing.op->base.round + 1,
                     standing.op->awaited,
                     standing.op->reason,
                     standing.op->wanted};
  }
  for (const CommitRecord& record : standing.records) {
    if (Counted(record, op)) {
      return OpChanged{id, op, OpState::kCommitted, record.state.round, {}, "counted", {}};
    }
  }
  return std::nullopt;
}

}  // namespace causeway::engine
