// A candidacy speaks only to the incarnations known when it began: a process that restarted
// meanwhile has lost what it may have promised, and needs a higher epoch (history 2 of tests/sim).
#include "daemon/engine/candidate.h"

#include <algorithm>
#include <cassert>

#include "daemon/engine/chain.h"

namespace causeway::engine {

bool Candidate::MayMint() {
  if (context_.horizon.Reaches(context_.counter_seen + 1)) return true;
  if (context_.counter_seen >= kEpochCounterMax) {
    context_.Warn("the numbers of epochs are used up: found the run anew");
  }
  not_before_ = context_.now + context_.config.HeartbeatInterval();
  return false;
}

void Candidate::Begin(const std::string& reason, std::optional<Electorate> wish, ClusterSet dropped,
                      std::optional<bool> stop, bool grow) {
  if (!context_.HasRecord() || context_.durable.Blank() || context_.stopped) return;
  if (!MayMint()) return;
  candidacy_ = Candidacy();
  candidacy_.wish = std::move(wish);
  candidacy_.dropped = dropped;
  candidacy_.stop = stop;
  candidacy_.grow = grow;
  Start(false);
  context_.Note("begins epoch " + ToString(candidacy_.epoch) + ": " + reason);
}

void Candidate::Start(bool founding) {
  const size_t clusters = static_cast<size_t>(context_.config.clusters);
  founding_ = founding;
  candidacy_.self = context_.self();
  candidacy_.epoch = {context_.counter_seen + 1, context_.self()};
  candidacy_.promises.assign(clusters, std::nullopt);
  stage_ = Stage::kPreparing;
  started_ = last_start_ = context_.now;
  accepted_ = {};
  own_promise_counted_ = false;
  rollback_wanted_ = false;
  undecided_.clear();
  targets_.assign(clusters, 0);
  for (size_t id = 0; id < clusters; ++id) {
    targets_[id] = context_.peers[static_cast<ClusterId>(id)].incarnation;
  }
  promise_token_ = acceptor_.GivePromise(candidacy_.epoch, founding);
  for (size_t id = 0; id < clusters; ++id) {
    if (id != context_.self()) SendPrepare(static_cast<ClusterId>(id));
  }
  OnPersisted();
}

void Candidate::SendPrepare(ClusterId to) {
  if (candidacy_.promises[to]) return;
  const Incarnation known = context_.peers[to].incarnation;
  if (known == 0 ||
      (known != targets_[to] && !context_.config.Planted(PlantedFault::kNoIncarnations))) {
    return;
  }
  const Lineage lineage = context_.HasRecord() ? context_.record().lineage : 0;
  context_.SendWhenDurable(to, candidacy_.epoch, lineage, Prepare{founding_});
}

void Candidate::OnPersisted() {
  if (stage_ == Stage::kPreparing && !own_promise_counted_ && context_.IsDurable(promise_token_)) {
    own_promise_counted_ = true;
    candidacy_.promises[context_.self()] =
        Promised{context_.config.incarnation, acceptor_.MakeReport(), context_.durable.accepted};
    if (context_.config.Planted(PlantedFault::kNoPromisePhase) && context_.HasRecord()) {
      for (int id = 0; id < context_.config.clusters; ++id) {
        const ClusterId peer = static_cast<ClusterId>(id);
        const Report* report = context_.peers.LiveReport(peer, context_.now);
        if (!report || report->accepted != context_.record().epoch) continue;
        candidacy_.promises[peer] = Promised{targets_[peer], *report, context_.record()};
      }
    }
    TryDecide();
  }
  if (stage_ == Stage::kInstalling && context_.IsDurable(accept_token_) &&
      !accepted_.Contains(context_.self())) {
    CountAcceptance(context_.self());
  }
}

void Candidate::OnPromise(ClusterId from, const Header& header, const Promise& body) {
  if (stage_ != Stage::kPreparing || header.epoch != candidacy_.epoch) return;
  if (targets_[from] != header.from_incarnation &&
      !context_.config.Planted(PlantedFault::kNoIncarnations)) {
    return;
  }
  candidacy_.promises[from] = Promised{header.from_incarnation, body.report, body.accepted};
  TryDecide();
}

ClusterSet Candidate::PromisedSet() const {
  ClusterSet set;
  for (size_t id = 0; id < candidacy_.promises.size(); ++id) {
    if (candidacy_.promises[id]) set.Insert(static_cast<ClusterId>(id));
  }
  return set;
}

bool Candidate::AllAlivePromised() const {
  return PromisedSet().ContainsAll(context_.peers.AliveSet(context_.now));
}

// With everybody's promise at once; with fewer only after the others had a while to answer.
void Candidate::TryDecide() {
  if (!own_promise_counted_) return;
  if (founding_) {
    TryFound();
    return;
  }
  const bool all = AllAlivePromised();
  if (!all && context_.now - started_ < context_.config.HeartbeatInterval()) return;
  const bool automatic = context_.config.rollback == RollbackPolicy::kAuto && all;
  candidacy_.may_roll_back = context_.RollbackApproved() || automatic;
  Verdict verdict = Decide(context_.config, candidacy_);
  const bool needless_to_wait = context_.config.rollback == RollbackPolicy::kAllHere &&
                                verdict.missing.Empty() && verdict.restorable;
  if (verdict.kind == Verdict::Kind::kNeedsRollback && needless_to_wait) {
    candidacy_.may_roll_back = true;
    verdict = Decide(context_.config, candidacy_);
  }
  undecided_ = verdict.reason;
  if (verdict.kind == Verdict::Kind::kRecord) {
    rollback_wanted_ = false;
    Propose(verdict.record);
  } else if (verdict.kind == Verdict::Kind::kNeedsRollback && !rollback_wanted_) {
    rollback_wanted_ = true;
    context_.Act(RollbackNeeded{verdict.missing, verdict.restorable});
  }
}

void Candidate::FoundIfPossible() {
  const Config& config = context_.config;
  const TrainerSeat& trainer = context_.trainer;
  if (Running() || context_.HasRecord() || context_.stopped || context_.now < not_before_) return;
  if (*config.electorate.voters.begin() != config.self || !trainer.present) return;
  for (ClusterId voter : config.electorate.voters) {
    if (voter == config.self) continue;
    const Peer& peer = context_.peers[voter];
    const bool agrees =
        peer.join && peer.join_is_fresh && peer.join->virgin && peer.join->schema_known &&
        peer.join->schema == trainer.schema && peer.join->algorithm == trainer.algorithm &&
        peer.join->fragments == trainer.fragments && context_.peers.Alive(voter, context_.now);
    if (!agrees) return;
    context_.counter_seen = std::max(context_.counter_seen, peer.join->promised.counter);
  }
  const ClusterId seed = config.seed_cluster;
  const bool seeded = seed == config.self
                          ? trainer.has_parameters
                          : context_.peers[seed].join && context_.peers[seed].join->has_parameters;
  if (!seeded || !MayMint()) return;
  candidacy_ = Candidacy();
  Start(true);
  context_.Note("founds the run with epoch " + ToString(candidacy_.epoch));
}

void Candidate::TryFound() {
  const Config& config = context_.config;
  for (const auto& promise : candidacy_.promises) {
    if (promise && promise->accepted) {
      GiveUp("the run exists already");
      return;
    }
  }
  if (!PromisedSet().ContainsAll(config.electorate.voters)) return;
  const TrainerSeat& trainer = context_.trainer;
  const ClusterId seed = config.seed_cluster;
  if (!trainer.present || (seed != config.self && !context_.peers[seed].join)) {
    GiveUp("a trainer left while the run was being founded");
    return;
  }
  const Hash256 parameters =
      seed == config.self ? trainer.parameters : context_.peers[seed].join->parameters;
  Record record;
  record.founding = config.founding;
  record.epoch = candidacy_.epoch;
  record.leader = config.self;
  record.members = config.electorate.voters;
  record.incarnations.assign(candidacy_.promises.size(), 0);
  for (ClusterId id : record.members) {
    record.incarnations[id] = candidacy_.promises[id]->incarnation;
  }
  record.electorate = config.electorate;
  record.schema = trainer.schema;
  record.algorithm = trainer.algorithm;
  for (FragmentId id = 0; id < trainer.fragments; ++id) {
    record.base.push_back({0, SeedChain(config, parameters, id)});
  }
  record.lineage_base = record.base;
  Propose(record);
}

void Candidate::Propose(const Record& record) {
  stage_ = Stage::kInstalling;
  started_ = context_.now;
  accept_token_ = acceptor_.AcceptRecord(record);
  for (ClusterId to : context_.Others()) SendInstall(to);
  OnPersisted();
}

void Candidate::SendInstall(ClusterId to) {
  const Record& record = context_.record();
  if (accepted_.Contains(to)) return;
  // A founder's own acceptance is on disk first: a lone acceptance elsewhere could not be
  // completed.
  if (founding_) {
    context_.SendWhenDurable(to, record.epoch, record.lineage, Install{record});
  } else {
    context_.SendIn(to, record.epoch, record.lineage, Install{record});
  }
}

void Candidate::OnAccepted(ClusterId from, const Header& header) {
  if (stage_ != Stage::kInstalling || header.epoch != candidacy_.epoch) return;
  if (!context_.record().members.Contains(from)) return;
  if (context_.record().incarnations[from] != header.from_incarnation &&
      !context_.config.Planted(PlantedFault::kNoIncarnations)) {
    return;
  }
  CountAcceptance(from);
}

void Candidate::CountAcceptance(ClusterId from) {
  accepted_.Insert(from);
  if (!accepted_.ContainsAll(context_.record().members)) return;
  stage_ = Stage::kIdle;
  not_before_ = context_.now;
  context_.SendToMembers(Installed{});
  acceptor_.MarkInstalled();
}

void Candidate::OnFenced() {
  if (stage_ != Stage::kIdle && context_.durable.promised != candidacy_.epoch) {
    GiveUp("a higher epoch was promised");
  }
}

void Candidate::GiveUp(const std::string& reason) {
  stage_ = Stage::kIdle;
  const Time pause = context_.config.HeartbeatInterval();
  not_before_ = context_.now +
                static_cast<Time>(context_.random.Below(static_cast<uint64_t>(2 * pause))) +
                pause / 2;
  context_.Note("gives up epoch " + ToString(candidacy_.epoch) + ": " + reason);
}

void Candidate::Repeat(ClusterId to) {
  if (stage_ == Stage::kPreparing) SendPrepare(to);
  if (stage_ == Stage::kInstalling && context_.record().members.Contains(to)) SendInstall(to);
}

void Candidate::OnTick() {
  OnFenced();
  if (stage_ == Stage::kIdle) return;
  if (stage_ == Stage::kPreparing) TryDecide();
  if (stage_ != Stage::kIdle && context_.now - started_ > context_.config.peer_timeout) {
    GiveUp(stage_ == Stage::kInstalling ? "not all members accepted"
           : undecided_.empty()         ? "too few promises"
                                        : undecided_);
  }
}

}  // namespace causeway::engine
