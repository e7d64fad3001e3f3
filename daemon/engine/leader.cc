// A change costs every member a pause, so none is begun that cannot reach a quorum, and a joiner is
// admitted when it is nearly level.
#include "daemon/engine/leader.h"

#include <algorithm>

#include "daemon/engine/chain.h"

namespace causeway::engine {
namespace {

constexpr RoundNumber kNearRounds = 2;  // how far behind a joiner may be when draining begins
constexpr int kCatchUpsMax = 2;         // after that many it is never nearer: drain for it

}  // namespace

bool Leader::QuorumAlive() const {
  if (context_.config.Planted(PlantedFault::kCommitWithoutQuorum)) return true;
  const Record& record = context_.record();
  const ClusterSet alive = context_.peers.AliveSet(context_.now);
  return record.electorate.IsQuorum(alive) &&
         (!record.old_electorate || record.old_electorate->IsQuorum(alive));
}

// Why the membership does not fit; empty: it fits.
std::string Leader::Misfit() const {
  const Record& record = context_.record();
  const Time timeout = context_.config.peer_timeout;
  for (ClusterId member : context_.Others()) {
    const Peer& peer = context_.peers[member];
    if (peer.incarnation != record.incarnations[member] &&
        !context_.config.Planted(PlantedFault::kNoIncarnations)) {
      return "a member restarted";
    }
    if (!context_.peers.Alive(member, context_.now) &&
        context_.now - context_.installed_at > timeout) {
      return "a member is not heard";
    }
  }
  if (!Apart().Empty()) return "members do not hear each other";
  for (int id = 0; id < context_.config.clusters; ++id) {
    const Report* report = context_.peers.LiveReport(static_cast<ClusterId>(id), context_.now);
    if (report && report->promised > record.epoch && !report->active) {
      return "a higher epoch was promised";
    }
  }
  return Orphan();
}

// Of a fragment. Its value was offered by a trainer that submitted work before the record was
// installed, or went with a disk: no gateway has it, but some have what a new epoch may begin with.
bool Leader::ValueLost(FragmentId id) const {
  const Record& record = context_.record();
  if (rounds_.HoldsBase(id)) return false;
  const bool first = record.base[id].round == 0;
  const auto brings = [&](bool offered, const Hash256& parameters) {
    return offered && first && SeedChain(context_.config, parameters, id) == record.base[id].chain;
  };
  const Standing& mine = ledger_[id];
  if (brings(mine.offered, context_.trainer.parameters)) return false;
  bool hope = mine.holds || mine.offered;
  for (int i = 0; i < context_.config.clusters; ++i) {
    const ClusterId peer = static_cast<ClusterId>(i);
    if (peer == context_.self()) continue;
    const bool member = record.members.Contains(peer);
    const Report* report = context_.peers.LiveReport(peer, context_.now);
    if (member && (!report || report->accepted != record.epoch || !report->active)) return false;
    if (!report || id >= report->fragments.size()) continue;
    const FragmentReport& theirs = report->fragments[id];
    const bool here = theirs.holds && theirs.committed.lineage == record.lineage &&
                      theirs.committed.round >= record.base[id].round;
    if (here || (member && brings(theirs.offered, report->parameters))) return false;
    hope = hope || theirs.holds || theirs.offered;
  }
  return hope;
}

std::string Leader::Orphan() const {
  if (context_.now - context_.installed_at <= context_.config.peer_timeout) return "";
  for (FragmentId id = 0; id < context_.record().base.size(); ++id) {
    if (ValueLost(id)) return "no member has the value of fragment " + std::to_string(id);
  }
  return "";
}

// Members to be left out because others do not hear them, for long enough that it is no leftover of
// a pause, and if the rest can go on.
ClusterSet Leader::Apart() const {
  const Time timeout = context_.config.peer_timeout;
  const bool lasting = apart_since_ != kNever && context_.now - apart_since_ > timeout / 2 &&
                       context_.now - context_.installed_at > timeout;
  if (!lasting) return {};
  const ClusterSet apart = context_.OutOfTouch() & context_.record().members;
  const ClusterSet rest = context_.peers.AliveSet(context_.now) - apart;
  return context_.record().electorate.IsQuorum(rest) ? apart : ClusterSet();
}

void Leader::OnTick() {
  if (context_.OutOfTouch().Empty()) {
    apart_since_ = kNever;
  } else {
    apart_since_ = std::min(apart_since_, context_.now);
  }
  if (!context_.Active() || !context_.Leader() || context_.Fenced()) {
    if (context_.Leader()) context_.draining = false;
    return;
  }
  if (candidate_.Running() || context_.now < candidate_.not_before() || !QuorumAlive()) return;
  if (!candidate_.MayMint()) return;
  const std::string misfit = Misfit();
  if (!misfit.empty()) {
    const bool hurried =
        context_.now - candidate_.last_start() < context_.config.HeartbeatInterval();
    if (!hurried || candidate_.last_start() == 0) {
      candidate_.Begin(misfit, std::nullopt, Apart());
    }
    return;
  }
  if (Settle() || TakeLeave() || HonourWish() || HonourStop() || HonourGrowth()) return;
  Admit();
}

// A change of voters that is INSTALLED is finished by one more record without the old ones.
bool Leader::Settle() {
  if (!context_.record().old_electorate) return false;
  if (context_.now - context_.installed_at < context_.config.HeartbeatInterval()) return true;
  candidate_.Begin("settles the change of voters");
  return true;
}

bool Leader::TakeLeave() {
  const Electorate& now = context_.record().electorate;
  std::optional<ClusterId> leaver;
  if (context_.leaving && now.voters.Contains(context_.self())) leaver = context_.self();
  for (ClusterId voter : now.voters) {
    const Report* report = context_.peers.LiveReport(voter, context_.now);
    if (report && report->leaving) leaver = voter;
  }
  if (!leaver || now.voters.Count() < 2) return false;
  if (context_.now - context_.installed_at < context_.config.peer_timeout / 2) return true;
  Electorate next = now;
  next.voters.Erase(*leaver);
  if (next.primary == leaver) next.primary.reset();
  ClusterSet stay = context_.peers.AliveSet(context_.now);
  stay.Erase(*leaver);
  if (!next.IsQuorum(stay)) return false;  // the others could not go on without it now
  candidate_.Begin("a cluster leaves", next, ClusterSet(uint64_t{1} << *leaver));
  return true;
}

bool Leader::HonourWish() {
  if (!wish_ || *wish_ == context_.record().electorate) {
    wish_.reset();
    return false;
  }
  if (!context_.peers.AliveSet(context_.now).ContainsAll(wish_->voters)) return false;
  const Electorate next = *wish_;
  wish_.reset();
  candidate_.Begin("the voters change", next);
  return true;
}

// The operator of any member may stop the run, or let it go on.
bool Leader::HonourStop() {
  const Record& record = context_.record();
  std::optional<bool> wish = context_.stop_wish;
  for (ClusterId member : context_.Others()) {
    const Report* report = context_.peers.LiveReport(member, context_.now);
    if (report && report->stop && *report->stop != record.stopped) wish = report->stop;
  }
  if (!wish || *wish == record.stopped) return false;
  candidate_.Begin(*wish ? "the run stops" : "the run goes on", std::nullopt, {}, wish);
  return true;
}

// The trainers of all members came with the same tensors, which extend the run's.
bool Leader::HonourGrowth() {
  const std::optional<Growth> wish = context_.GrowthWish();
  if (!wish) return false;
  for (ClusterId member : context_.Others()) {
    const Report* report = context_.peers.LiveReport(member, context_.now);
    const bool agrees = report && report->accepted == context_.record().epoch && report->growth &&
                        report->growth->schema == wish->schema;
    if (!agrees) return false;
  }
  candidate_.Begin("the run grows", std::nullopt, {}, std::nullopt, true);
  return true;
}

// Holds every fragment in this lineage.
bool Leader::Follows(const Report& report, RoundNumber* lag, RoundNumber* sum) const {
  // A blank gateway whose trainer came with more tensors reports more.
  if (report.fragments.size() < ledger_.size()) return false;
  *lag = *sum = 0;
  for (FragmentId id = 0; id < ledger_.size(); ++id) {
    const FragmentReport& theirs = report.fragments[id];
    const StateId& mine = ledger_[id].committed;
    if (!theirs.holds || theirs.committed.lineage != mine.lineage) return false;
    *lag = std::max(*lag, mine.round - theirs.committed.round);
    *sum += theirs.committed.round;
  }
  return true;
}

// Whether the members begin no new rounds for the sake of this joiner: it is near, or gets no
// nearer while rounds go on, and it does make progress.
bool Leader::DrainFor(Arrival* arrival, const Report& report) {
  RoundNumber lag = 0;
  RoundNumber sum = 0;
  if (!Follows(report, &lag, &sum) || context_.now < arrival->not_before) {
    arrival->drained_for = false;
    return false;
  }
  if (sum != arrival->sum) {
    arrival->sum = sum;
    ++arrival->catch_ups;
    arrival->progress = context_.now;
  }
  if (report.fetching) arrival->progress = context_.now;
  if (!arrival->drained_for) {
    arrival->drained_for = lag <= kNearRounds || arrival->catch_ups > kCatchUpsMax;
    if (arrival->drained_for) arrival->progress = context_.now;
    return arrival->drained_for;
  }
  if (context_.now - arrival->progress > context_.config.peer_timeout) {
    *arrival = Arrival();
    arrival->not_before = context_.now + 4 * context_.config.peer_timeout;
    return false;
  }
  return true;
}

bool Leader::Level(const Report& report) const {
  for (FragmentId id = 0; id < ledger_.size(); ++id) {
    if (rounds_.Undecided(id)) return false;
    if (report.fragments[id].committed.chain != ledger_[id].committed.chain) return false;
  }
  return true;
}

// False after a rollback to a value that only others hold: until it is fetched this gateway is as
// far behind as a joiner may be, and each new epoch would begin the fetch again.
bool Leader::HoldsBase() const {
  const Record& record = context_.record();
  for (FragmentId id = 0; id < ledger_.size(); ++id) {
    const Standing& mine = ledger_[id];
    if (!mine.holds || mine.committed.lineage != record.lineage) return false;
    if (id >= record.base.size() || mine.committed.round < record.base[id].round) return false;
  }
  return true;
}

void Leader::Admit() {
  if (!HoldsBase()) return;
  const Record& record = context_.record();
  arrivals_.resize(static_cast<size_t>(context_.config.clusters));
  const ClusterSet apart = context_.OutOfTouch();
  bool drains = false;
  ClusterSet level;
  for (int id = 0; id < context_.config.clusters; ++id) {
    const ClusterId peer = static_cast<ClusterId>(id);
    const Report* report = context_.peers.LiveReport(peer, context_.now);
    if (record.members.Contains(peer) || !report || !report->wants_join || apart.Contains(peer)) {
      arrivals_[peer] = Arrival();
      continue;
    }
    if (!DrainFor(&arrivals_[peer], *report)) continue;
    drains = true;
    if (Level(*report)) level.Insert(peer);
  }
  context_.draining = drains;
  if (level.Empty()) return;
  for (ClusterId joiner : level) arrivals_[joiner] = Arrival();
  context_.draining = false;
  candidate_.Begin("admits " + ToString(level));
}

}  // namespace causeway::engine
