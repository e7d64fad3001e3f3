// One state a fragment, from all that hold it. A transfer under way is left alone until the data
// plane says it failed or all donors are gone: a newer offer would restart it, and one that
// restarts for ever never arrives.
#include "daemon/engine/catch_up.h"

#include <tuple>
#include <utility>

#include "daemon/engine/chain.h"

namespace causeway::engine {

bool CatchUp::Needs(FragmentId id) const {
  if (context_.frozen || context_.stopped) return false;
  if (!ledger_[id].holds || !context_.Active() || context_.Outdated()) return true;
  return !rounds_.HoldsBase(id);
}

// Whether taking this state over would bring the gateway on.
bool CatchUp::Useful(FragmentId id, const StateId& state) const {
  const Standing& standing = ledger_[id];
  if (context_.Active() && !context_.Outdated()) {
    const Record& record = context_.record();
    if (id >= record.base.size()) return false;  // of a run that has grown meanwhile
    return !rounds_.HoldsBase(id) && state.lineage == record.lineage &&
           state.round >= record.base[id].round;
  }
  if (!standing.holds) return true;
  return std::tie(state.lineage, state.round) >
         std::tie(standing.committed.lineage, standing.committed.round);
}

// The run's founding parameters may be what the local trainer came with: nothing moves then.
bool CatchUp::TakeFromTrainer(FragmentId id) {
  const TrainerSeat& trainer = context_.trainer;
  if (!context_.Active() || rounds_.HoldsBase(id) || !ledger_[id].offered) return false;
  const Record& record = context_.record();
  if (id >= record.base.size()) return false;  // of a run that has grown meanwhile
  const FragmentBase& base = record.base[id];
  if (base.round != 0 || SeedChain(context_.config, trainer.parameters, id) != base.chain) {
    return false;
  }
  ledger_.Jump(id, {record.lineage, 0, base.chain}, {}, true);
  rounds_.OnJump(id);
  return true;
}

void CatchUp::Check() {
  transfers_.resize(ledger_.size());
  for (FragmentId id = 0; id < ledger_.size(); ++id) {
    std::optional<Transfer>& transfer = transfers_[id];
    if (!Needs(id)) {
      if (transfer && !context_.frozen) transfer.reset();
      continue;
    }
    if (TakeFromTrainer(id)) continue;
    if (transfer && transfer->held) TakeOver(id);
    if (transfer) {
      if (transfer->held || !Lost(*transfer)) continue;
      transfer.reset();
    }
    Ask(id);
  }
}

void CatchUp::OnTick() { Check(); }

bool CatchUp::FetchingAny() const {
  for (const std::optional<Transfer>& transfer : transfers_) {
    if (transfer) return true;
  }
  return false;
}

bool CatchUp::Lost(const Transfer& transfer) const {
  for (const auto& [donor, incarnation] : transfer.donors) {
    const bool here = context_.peers[donor].incarnation == incarnation &&
                      context_.peers.Alive(donor, context_.now);
    if (here) return false;
  }
  return true;
}

// Who says that it holds just that.
std::map<ClusterId, Incarnation> CatchUp::Donors(FragmentId id, const StateId& state) const {
  std::map<ClusterId, Incarnation> donors;
  for (int i = 0; i < context_.config.clusters; ++i) {
    const ClusterId peer = static_cast<ClusterId>(i);
    const Report* report = context_.peers.LiveReport(peer, context_.now);
    if (!report || id >= report->fragments.size()) continue;
    const FragmentReport& theirs = report->fragments[id];
    if (theirs.holds && theirs.committed == state) donors[peer] = context_.peers[peer].incarnation;
  }
  return donors;
}

// Whoever has the most; among equals a different one from time to time, in case it cannot serve.
void CatchUp::Ask(FragmentId id) {
  ClusterSet best;
  StateId most;
  for (int peer_index = 0; peer_index < context_.config.clusters; ++peer_index) {
    const ClusterId peer = static_cast<ClusterId>(peer_index);
    const Report* report = context_.peers.LiveReport(peer, context_.now);
    if (!report || id >= report->fragments.size() || !report->fragments[id].holds) continue;
    const StateId& state = report->fragments[id].committed;
    if (!Useful(id, state)) continue;
    const auto order = [](const StateId& s) { return std::make_pair(s.lineage, s.round); };
    if (best.Empty() || order(state) > order(most)) {
      best = {};
      most = state;
    }
    if (order(state) == order(most)) best.Insert(peer);
  }
  if (best.Empty()) return;
  uint64_t skip = context_.random.Below(static_cast<uint64_t>(best.Count()));
  for (ClusterId peer : best) {
    if (skip-- > 0) continue;
    const Standing& standing = ledger_[id];
    context_.Send(peer, Fetch{id, standing.holds, standing.committed});
    return;
  }
}

void CatchUp::OnFetch(ClusterId from, const Fetch& body) {
  const Standing& standing = ledger_[body.fragment];
  const StateId& mine = standing.committed;
  if (!standing.holds) return;
  if (body.holds &&
      std::tie(mine.lineage, mine.round) <= std::tie(body.have.lineage, body.have.round)) {
    return;
  }
  State offer{body.fragment, mine, {}};
  const bool extends = body.holds && body.have.lineage == mine.lineage;
  for (const CommitRecord& record : standing.records) {
    if (!extends || record.state.round > body.have.round) offer.records.push_back(record);
  }
  context_.Send(from, std::move(offer));
}

void CatchUp::OnState(ClusterId from, const State& body) {
  const FragmentId id = body.fragment;
  transfers_.resize(ledger_.size());
  if (!Needs(id)) return;
  if (ledger_[id].holds && body.state.lineage == ledger_[id].committed.lineage) {
    rounds_.OnRecords(id, body.records);
  }
  if (!Needs(id) || !Useful(id, body.state)) return;
  std::optional<Transfer>& transfer = transfers_[id];
  if (transfer) return;
  transfer = Transfer{body.state, Donors(id, body.state), false, body.records};
  transfer->donors[from] = context_.peers[from].incarnation;
  ClusterSet donors;
  for (const auto& [donor, incarnation] : transfer->donors) donors.Insert(donor);
  context_.Act(FetchState{id, body.state, donors});
}

void CatchUp::OnStateHeld(const StateHeld& held) {
  if (held.fragment >= transfers_.size()) return;
  std::optional<Transfer>& transfer = transfers_[held.fragment];
  if (!transfer || !(transfer->state == held.state)) return;
  transfer->held = true;
  if (Needs(held.fragment)) TakeOver(held.fragment);
}

void CatchUp::OnStateFailed(const StateFailed& failed) {
  if (failed.fragment >= transfers_.size()) return;
  std::optional<Transfer>& transfer = transfers_[failed.fragment];
  if (transfer && transfer->state == failed.state) transfer.reset();
}

void CatchUp::TakeOver(FragmentId id) {
  const Transfer transfer = *std::exchange(transfers_[id], std::nullopt);
  if (!Useful(id, transfer.state)) return;
  ledger_.Jump(id, transfer.state, transfer.records, false);
  rounds_.OnJump(id);
}

}  // namespace causeway::engine
