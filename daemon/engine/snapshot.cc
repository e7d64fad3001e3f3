// The picture for status: what phase this gateway is in, and who is waited for.
#include "daemon/engine/core.h"

namespace causeway::engine {

// Members whose trainers have not come with what the local one wants the run to grow to.
ClusterSet Core::AwaitedToGrow() const {
  const std::optional<Growth> wish = context_.GrowthWish();
  ClusterSet awaited;
  if (!wish) return awaited;
  for (ClusterId member : context_.Others()) {
    const Report* report = context_.peers.LiveReport(member, context_.now);
    if (!report || !report->growth || !(report->growth->schema == wish->schema)) {
      awaited.Insert(member);
    }
  }
  return awaited;
}

Phase Core::CurrentPhase(ClusterSet* awaited, std::string* reason) const {
  const Time now = context_.now;
  const ClusterSet alive = context_.peers.AliveSet(now);
  if (context_.stopped) {
    *reason = "the run has stopped after a fatal difference";
    return Phase::kStopped;
  }
  if (!context_.HasRecord() && !context_.Outdated()) {
    *reason = "awaits the other voters and their trainers";
    ClusterSet remember;  // a run that is not known here
    for (ClusterId voter : context_.config.electorate.voters) {
      if (voter == context_.self()) continue;
      const Peer& peer = context_.peers[voter];
      if (!alive.Contains(voter) || !peer.join || !peer.join->schema_known) awaited->Insert(voter);
      if (alive.Contains(voter) && peer.join && !peer.join->virgin) remember.Insert(voter);
    }
    if (!context_.trainer.present) {
      awaited->Insert(context_.self());
      *reason = "awaits the local trainer";
    }
    if (!remember.Empty()) {
      *awaited = remember;
      *reason =
          "others have a run that is not known here: they take this cluster back once enough of "
          "its "
          "voters are there; to begin anew, forget it on all of them";
    }
    return Phase::kForming;
  }
  // Who was left out of a later epoch without a word to it takes part in nothing any more.
  if (context_.Active() && !context_.Fenced() && !context_.Outdated()) {
    const ClusterSet silent = context_.record().members - alive;
    if (context_.record().stopped) {
      *reason = "stopped by its operator";
      return Phase::kHalted;
    }
    if (const ClusterSet others = AwaitedToGrow(); !others.Empty()) {
      *awaited = others;
      *reason = "the run grows once their trainers come with the same tensors";
      return Phase::kActive;
    }
    *awaited = silent;
    if (silent.Empty()) return Phase::kActive;
    *reason = "members are not heard";
    return Phase::kStalled;
  }
  if (candidate_.rollback_wanted()) {
    *reason =
        "the run can only go on by undoing commits: approve, or bring the missing voters back";
    *awaited = context_.record().electorate.voters - alive;
    return Phase::kStalled;
  }
  if (context_.HasRecord() && !context_.record().electorate.IsQuorum(alive)) {
    *awaited = context_.record().electorate.voters - alive;
    *reason = "no quorum of voters is heard";
    return Phase::kStalled;
  }
  if (context_.HasRecord() && (candidate_.Running() || context_.Fenced())) {
    *reason = "a membership is being agreed";
    return Phase::kChanging;
  }
  *reason = "follows the run until it is admitted";
  return Phase::kJoining;
}

Status Core::Snapshot() const {
  Status status;
  status.phase = CurrentPhase(&status.awaited, &status.reason);
  status.promised = context_.durable.promised;
  status.record = context_.durable.accepted;
  status.installed = context_.installed;
  status.kept_memory = context_.kept_memory;
  status.frozen = context_.frozen;
  for (int id = 0; id < context_.config.clusters; ++id) {
    const ClusterId cluster = static_cast<ClusterId>(id);
    const Peer& peer = context_.peers[cluster];
    PeerStatus& out = status.peers.emplace_back();
    out.incarnation = cluster == context_.self() ? context_.config.incarnation : peer.incarnation;
    out.last_heard = peer.heard;
    if (peer.foreign != 0) status.foreign.Insert(cluster);
    out.connected = peer.connected;
    out.member = context_.HasRecord() && context_.record().members.Contains(cluster);
    out.suspected = out.member && !context_.peers.Alive(cluster, context_.now);
  }
  rounds_.FillStatus(&status.fragments);
  for (FragmentId id = 0; id < status.fragments.size(); ++id) {
    status.fragments[id].fetching = catch_up_.Fetching(id);
    if (status.phase == Phase::kActive && ledger_[id].op && ledger_[id].op->Waits()) {
      status.awaited = status.awaited | ledger_[id].op->awaited;
    }
  }
  return status;
}

Kept Core::CountKept() const {
  Kept kept;
  kept.held = context_.held();
  kept.plans = plans_.size();
  for (FragmentId id = 0; id < ledger_.size(); ++id) {
    kept.votes += rounds_.votes(id);
    kept.records += ledger_[id].records.size();
  }
  return kept;
}

}  // namespace causeway::engine
