// WITHDRAW and CUT: how a round goes on without a contribution that will not come.
#include <algorithm>
#include <cassert>

#include "daemon/engine/rounds.h"

namespace causeway::engine {

// The trainer is gone before this gateway completed: the attempt will not be completed here.
void Rounds::WithdrawIfOrphaned(FragmentId id) {
  Open& open = open_[id];
  if (!open.contributors.Contains(context_.self()) || TrainerStands(id)) return;
  if (open.withdrawn && *open.withdrawn >= open.attempt) return;
  const bool completed = open.completed && *open.completed >= open.attempt;
  if (completed && !context_.config.Planted(PlantedFault::kWithdrawLate)) return;
  open.withdrawn = open.attempt;
  const Withdraw withdraw{id, open.round, open.attempt, OperationWaits(id)};
  if (context_.Leader()) {
    ApplyWithdraw(open, context_.self(), withdraw);
  } else {
    context_.Send(context_.record().leader, withdraw);
  }
}

// Each cut leaves out who withdrew or is late, and names others only once all of its own have
// withdrawn, so there are at most two for each member: kAttemptMax is beyond them.
void Rounds::ApplyWithdraw(Open& open, ClusterId from, const Withdraw& body) {
  if (body.attempt != open.attempt || !open.contributors.Contains(from)) return;
  open.withdraw_held = true;
  open.gone.Insert(from);
  if (body.ready) open.ready.Insert(from);
}

void Rounds::OnWithdraw(ClusterId from, const Header& header, const Withdraw& body) {
  Open& open = open_[body.fragment];
  open.withdraw_words[from] = Word<Withdraw>{header.epoch, header.lineage, body};
  if (!OpenRound(body.fragment) || !context_.Leader()) return;
  if (!Current(open, header.epoch, header.lineage, body.round)) return;
  if (!context_.record().members.Contains(from)) return;
  ApplyWithdraw(open, from, body);
  Advance(body.fragment);
}

// Whether the leader should go on with those that are there.
bool Rounds::CutDue(const Open& open) const {
  const bool deadline =
      context_.config.straggler == StragglerPolicy::kDeadline && open.first_announced != kNever &&
      context_.now - open.first_announced >= arrivals_.Grace(context_.config.deadline_grace);
  if (deadline) return true;
  if (!open.withdraw_held) return false;
  // By waiting: everybody else who may count is there.
  return (open.contributors - open.gone - open.announced).Empty();
}

void Rounds::LeadCut(FragmentId id) {
  Open& open = open_[id];
  if (!context_.Leader()) return;
  const bool completed = open.completed && *open.completed >= open.attempt;
  if (completed && !open.withdraw_held) {
    // An attempt that the leader completed may be committed somewhere: nothing may follow it.
    if (context_.config.Planted(PlantedFault::kCutAfterComplete) &&
        context_.now - open.opened > context_.config.HeartbeatInterval() / 4) {
      SendCut(id, open.contributors - ClusterSet(open.contributors.bits() & 1));
    }
    return;
  }
  if (!CutDue(open) || open.attempt >= kAttemptMax) return;
  if (OperationWaits(id)) open.ready.Insert(context_.self());
  ClusterSet named = (open.contributors & open.announced) - open.gone;
  if (named.Empty()) named = open.announced - open.gone;
  // Nobody is left. Without a waiting operation there is no hurry: the round stays open.
  if (named.Empty() && (open.ready.Empty() || !open.withdraw_held)) return;
  if (named == open.contributors && !open.withdraw_held) return;
  SendCut(id, named);
}

void Rounds::SendCut(FragmentId id, ClusterSet named) {
  Open& open = open_[id];
  Cut cut{id, open.round, open.attempt + 1, {}};
  for (ClusterId cluster : named) cut.contributors.push_back(open.parts[cluster]);
  ApplyCut(id, cut);
  context_.SendToMembers(cut);
}

void Rounds::ApplyCut(FragmentId id, const Cut& cut) {
  Open& open = open_[id];
  if (cut.attempt <= open.attempt) return;
  ClusterSet named;
  for (const Contributor& part : cut.contributors) named.Insert(part.cluster);
  open.attempt = cut.attempt;
  open.contributors = named;
  open.named = cut.contributors;
  open.withdraw_held = false;
  open.result.reset();
}

void Rounds::OnCut(ClusterId from, const Header& header, const Cut& body) {
  if (from != header.epoch.candidate) return;  // the leader of an epoch is its candidate
  Open& open = open_[body.fragment];
  auto& word = open.cut_word;
  const bool newer = !word || word->epoch < header.epoch ||
                     (word->epoch == header.epoch &&
                      (word->body.round < body.round ||
                       (word->body.round == body.round && word->body.attempt < body.attempt)));
  if (newer) word = Word<Cut>{header.epoch, header.lineage, body};
  if (!OpenRound(body.fragment)) return;
  if (!Current(open, header.epoch, header.lineage, body.round)) return;
  ApplyCut(body.fragment, body);
  Advance(body.fragment);
}

// Hands the set to the data plane once every contribution of the attempt is announced.
void Rounds::Reduce(FragmentId id) {
  Open& open = open_[id];
  if (open.reducing && *open.reducing >= open.attempt) return;
  if (open.withdrawn && *open.withdrawn >= open.attempt) return;
  std::vector<Contributor> parts;
  if (open.attempt == 0) {
    if (!open.announced.ContainsAll(open.contributors)) return;
    for (ClusterId cluster : open.contributors) parts.push_back(open.parts[cluster]);
  } else {
    for (const Contributor& part : open.named) {
      if (!open.announced.Contains(part.cluster) || !(open.parts[part.cluster] == part)) return;
    }
    parts = open.named;
  }
  for (const Contributor& part : parts) {
    if (!plans_.Known(part.plan)) return;
  }
  open.reducing = open.attempt;
  context_.Act(
      engine::Reduce{id, open.round, open.lineage, open.epoch, open.attempt, std::move(parts)});
}

void Rounds::OnTimer() {
  for (FragmentId id = 0; id < open_.size(); ++id) Advance(id);
}

Time Rounds::NextDeadline() const {
  Time next = kNever;
  if (!context_.Active()) return next;
  if (context_.config.straggler == StragglerPolicy::kDeadline && context_.Leader()) {
    for (const Open& open : open_) {
      if (open.first_announced == kNever || open.completed) continue;
      const Time due = open.first_announced + arrivals_.Grace(context_.config.deadline_grace);
      if (due > context_.now) next = std::min(next, due);
    }
  }
  return next;
}

}  // namespace causeway::engine
