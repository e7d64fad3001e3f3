// Opening a round, contributing to it, and keeping the words of others until it opens.
// Attempts are in rounds_cut.cc, decisions in rounds_decide.cc.
#include "daemon/engine/rounds.h"

#include <algorithm>
#include <cassert>

namespace causeway::engine {

void Rounds::Resize(uint32_t fragments) {
  ledger_.Resize(fragments);
  const size_t clusters = static_cast<size_t>(context_.config.clusters);
  open_.resize(fragments);
  for (Open& open : open_) {
    open.parts.resize(clusters);
    open.contribution_words.resize(clusters);
    open.withdraw_words.resize(clusters);
    open.ready_words.resize(clusters);
  }
}

bool Rounds::HoldsBase(FragmentId id) const {
  const Standing& standing = ledger_[id];
  const Record& record = context_.record();
  if (!standing.holds || id >= record.base.size()) return false;
  return standing.committed.lineage == record.lineage &&
         standing.committed.round >= record.base[id].round;
}

bool Rounds::Current(const Open& open, const Epoch& epoch, Lineage lineage,
                     RoundNumber round) const {
  return !open.epoch.None() && open.epoch == epoch && open.lineage == lineage &&
         open.round == round;
}

// False: no round can be open now.
bool Rounds::OpenRound(FragmentId id) {
  if (!context_.Active() || context_.record().stopped || !HoldsBase(id)) return false;
  const Record& record = context_.record();
  const StateId& committed = ledger_[id].committed;
  Open& open = open_[id];
  if (Current(open, record.epoch, committed.lineage, committed.round + 1)) return true;
  open.epoch = record.epoch;
  open.lineage = committed.lineage;
  open.round = committed.round + 1;
  open.attempt = 0;
  open.contributors = record.members;
  open.named.clear();
  open.announced = {};
  open.withdrawn.reset();
  open.reducing.reset();
  open.result.reset();
  open.completed.reset();
  open.opened = context_.now;
  open.first_announced = kNever;
  open.all_announced = false;
  open.gone = {};
  open.ready = {};
  open.withdraw_held = false;
  TakeWords(id);
  return true;
}

// What was said about this round before it opened here.
void Rounds::TakeWords(FragmentId id) {
  Open& open = open_[id];
  for (ClusterId from : context_.Others()) {
    const auto& contribution = open.contribution_words[from];
    if (contribution &&
        Current(open, contribution->epoch, contribution->lineage, contribution->body.round)) {
      TakePart(open, from, contribution->body);
    }
    const auto& withdraw = open.withdraw_words[from];
    if (withdraw && Current(open, withdraw->epoch, withdraw->lineage, withdraw->body.round)) {
      ApplyWithdraw(open, from, withdraw->body);
    }
    const auto& ready = open.ready_words[from];
    if (ready && Current(open, ready->epoch, ready->lineage, ready->body.round)) {
      open.ready.Insert(from);
    }
  }
  if (open.cut_word &&
      Current(open, open.cut_word->epoch, open.cut_word->lineage, open.cut_word->body.round)) {
    ApplyCut(id, open.cut_word->body);
  }
}

void Rounds::TakePart(Open& open, ClusterId from, const Contribution& body) {
  if (open.announced.Contains(from)) return;  // one per cluster, round and epoch
  open.announced.Insert(from);
  open.parts[from] = {from, context_.record().incarnations[from], body.op, body.weight, body.plan};
  open.first_announced = std::min(open.first_announced, context_.now);
}

void Rounds::Advance(FragmentId id) {
  if (OpenRound(id)) {
    Contribute(id);
    NoteArrivals(open_[id]);
    WithdrawIfOrphaned(id);
    LeadCut(id);
    Reduce(id);
    TryComplete(id);
  }
  DescribeWaiting(id);
}

// How long the last one took after the first one, in rounds for which everybody came.
void Rounds::NoteArrivals(Open& open) {
  if (open.all_announced || open.attempt != 0) return;
  if (!open.announced.ContainsAll(open.contributors)) return;
  open.all_announced = true;
  arrivals_.Note(context_.now - open.first_announced);
}

void Rounds::AdvanceAll() {
  for (FragmentId id = 0; id < open_.size(); ++id) Advance(id);
}

// The trainer behind the cluster's part in this round is there. A gateway that has just started
// gives its trainers a while to find it again.
bool Rounds::TrainerStands(FragmentId id) const {
  const TrainerSeat& trainer = context_.trainer;
  if (trainer.present && !context_.TrainerTakesPart()) return false;
  if (!trainer.present) {
    return !trainer.ever_present &&
           context_.now - trainer.absent_since < context_.config.peer_timeout;
  }
  const Standing& standing = ledger_[id];
  const bool announced = open_[id].announced.Contains(context_.self());
  return !announced || (standing.own && standing.own->session == trainer.session);
}

bool Rounds::OperationWaits(FragmentId id) const {
  const Standing& standing = ledger_[id];
  return context_.trainer.present && standing.op && standing.op->Waits() &&
         standing.op->base.lineage == standing.committed.lineage &&
         standing.op->base.round == standing.committed.round;
}

void Rounds::Contribute(FragmentId id) {
  Open& open = open_[id];
  Standing& standing = ledger_[id];
  const ClusterId self = context_.self();
  const bool withdrawn = open.withdrawn && *open.withdrawn >= open.attempt;
  if (open.announced.Contains(self) || withdrawn || !open.contributors.Contains(self)) return;
  const bool fresh =
      OperationWaits(id) && (!standing.own || standing.own->part.op != standing.op->op);
  if (fresh) {
    if (context_.draining && open.announced.Empty()) return;
    if (standing.own) context_.Act(ReleaseRetained{id, standing.own->part.op});
    standing.own = Retained{{self, context_.config.incarnation, standing.op->op,
                             standing.op->weight, plans_.For(open.round)},
                            open.lineage,
                            open.round,
                            context_.trainer.session};
  }
  const bool stands = standing.own && standing.own->lineage == open.lineage &&
                      standing.own->round == open.round && context_.trainer.present &&
                      standing.own->session == context_.trainer.session;
  if (!stands) return;
  const Contributor& part = standing.own->part;
  open.announced.Insert(self);
  open.parts[self] = part;
  open.first_announced = std::min(open.first_announced, context_.now);
  context_.SendToMembers(Contribution{id, open.round, part.op, part.weight, part.plan});
  if (fresh) {
    context_.Act(StartContribution{id, open.round, open.lineage, open.epoch, part.op, part.weight,
                                   part.plan, context_.Others()});
  } else {
    context_.Act(ResendContribution{id, open.round, open.lineage, open.epoch, part.op, part.weight,
                                    part.plan, context_.Others()});
  }
}

void Rounds::OnContribution(ClusterId from, const Header& header, const Contribution& body) {
  Open& open = open_[body.fragment];
  auto& word = open.contribution_words[from];
  if (!word || word->epoch < header.epoch ||
      (word->epoch == header.epoch && word->body.round < body.round)) {
    word = Word<Contribution>{header.epoch, header.lineage, body};
  }
  const StateId& committed = ledger_[body.fragment].committed;
  if (ledger_[body.fragment].holds && header.lineage == committed.lineage &&
      body.round <= committed.round) {
    Answer(from, body.fragment, body.round);
    return;
  }
  if (!OpenRound(body.fragment)) return;
  if (Current(open, header.epoch, header.lineage, body.round) &&
      context_.record().members.Contains(from)) {
    TakePart(open, from, body);
  }
  Advance(body.fragment);
}

void Rounds::OnReady(ClusterId from, const Header& header, const Ready& body) {
  Open& open = open_[body.fragment];
  open.ready_words[from] = Word<Ready>{header.epoch, header.lineage, body};
  if (!OpenRound(body.fragment)) return;
  if (Current(open, header.epoch, header.lineage, body.round)) {
    open.ready.Insert(from);
    Advance(body.fragment);
  }
}

void Rounds::Repeat(ClusterId to) {
  for (FragmentId id = 0; id < open_.size(); ++id) {
    SendComplete(id, to);
    const Open& open = open_[id];
    const Record* record = context_.HasRecord() ? &context_.record() : nullptr;
    if (!context_.Active() || open.epoch != record->epoch || !record->members.Contains(to))
      continue;
    if (open.round != ledger_[id].committed.round + 1) continue;
    const ClusterId self = context_.self();
    if (open.announced.Contains(self)) {
      const Contributor& part = open.parts[self];
      plans_.Tell(to, part.plan);  // a leader that has restarted may not know it
      context_.Send(to, Contribution{id, open.round, part.op, part.weight, part.plan});
    }
    if (to == record->leader) {
      const bool withdrawn = open.withdrawn && *open.withdrawn == open.attempt;
      if (withdrawn) {
        context_.Send(to, Withdraw{id, open.round, open.attempt, OperationWaits(id)});
      } else if (OperationWaits(id)) {
        context_.Send(to, Ready{id, open.round});
      }
    }
    if (context_.Leader() && open.attempt > 0) {
      context_.Send(to, Cut{id, open.round, open.attempt, open.named});
    }
  }
}

void Rounds::FillReport(std::vector<FragmentReport>* reports) const {
  reports->resize(open_.size());
  for (FragmentId id = 0; id < open_.size(); ++id) {
    const Open& open = open_[id];
    const Standing& standing = ledger_[id];
    FragmentReport& report = (*reports)[id];
    report.holds = standing.holds;
    report.offered = standing.offered;
    report.committed = standing.committed;
    if (open.sent) {
      const CommitRecord& record = open.sent->record;
      report.complete = true;
      report.complete_epoch = record.epoch;
      report.complete_round = record.state.round;
      report.complete_attempt = record.attempt;
      report.complete_chain = record.state.chain;
    }
    report.attempt_seen = context_.HasRecord() && standing.holds &&
                          Current(open, context_.record().epoch, standing.committed.lineage,
                                  standing.committed.round + 1);
    report.attempt = report.attempt_seen ? open.attempt : 0;
  }
}

}  // namespace causeway::engine
