// A leader is heard only in the incarnation that its record names, active in that record: a name
// that answers is not enough (history 7 of tests/sim).
#include "daemon/engine/liveness.h"

#include <algorithm>

namespace causeway::engine {

bool Liveness::HearsRecordLeader() const {
  if (!context_.HasRecord()) return false;
  const Record& record = context_.record();
  const ClusterId leader = record.leader;
  if (leader == context_.self()) return context_.Active() && !context_.Fenced();
  const Report* report = context_.peers.LiveReport(leader, context_.now);
  if (!report) return false;
  if (context_.peers[leader].incarnation != record.incarnations[leader] &&
      !context_.config.Planted(PlantedFault::kNoIncarnations)) {
    return false;
  }
  const bool settling = context_.now - context_.installed_at < context_.config.peer_timeout;
  return report->accepted == record.epoch && (report->active || settling);
}

// The leader of the highest installed epoch that this gateway knows of.
bool Liveness::HearsLeader() const {
  Epoch highest = context_.HasRecord() ? context_.record().epoch : Epoch{};
  bool elsewhere = false;
  for (int id = 0; id < context_.config.clusters; ++id) {
    const Report* report = context_.peers.LiveReport(static_cast<ClusterId>(id), context_.now);
    if (!report || !report->active || report->accepted <= highest) continue;
    highest = report->accepted;
    elsewhere = true;
  }
  if (!elsewhere) return HearsRecordLeader();
  const Report* leader = context_.peers.LiveReport(highest.candidate, context_.now);
  return leader && leader->active && leader->accepted >= highest;
}

// Lower names first, so that one candidate suffices.
Time Liveness::Patience() const {
  int rank = 0;
  for (ClusterId voter : context_.record().electorate.voters) rank += voter < context_.self();
  const Time step = context_.config.HeartbeatInterval();
  return rank * step +
         static_cast<Time>(context_.random.Below(static_cast<uint64_t>(step / 2 + 1)));
}

void Liveness::OnTick() {
  if (!context_.HasRecord() || context_.durable.Blank() || context_.stopped) return;
  const Record& record = context_.record();
  const bool voter =
      record.electorate.voters.Contains(context_.self()) ||
      (record.old_electorate && record.old_electorate->voters.Contains(context_.self()));
  if (!voter || HearsLeader()) {
    suspects_since_ = kNever;
    grants_ = {};
    return;
  }
  if (suspects_since_ == kNever) {
    suspects_since_ = context_.now;
    patience_ = Patience();
    grants_ = {};
  }
  if (candidate_.Running() || context_.now < candidate_.not_before()) return;
  if (context_.now - suspects_since_ < patience_) return;
  grants_.Insert(context_.self());
  if (record.electorate.IsQuorum(grants_) ||
      context_.config.Planted(PlantedFault::kCommitWithoutQuorum)) {
    grants_ = {};
    suspects_since_ = context_.now;
    patience_ = Patience();
    candidate_.Begin("the leader is not heard");
    return;
  }
  for (int id = 0; id < context_.config.clusters; ++id) {
    if (id != context_.self()) context_.Send(static_cast<ClusterId>(id), PreVote{});
  }
}

void Liveness::OnPreVote(ClusterId from, const Header& header) {
  if (HearsLeader()) return;
  if (context_.HasRecord() && context_.record().epoch > header.epoch) return;
  context_.SendIn(from, header.epoch, header.lineage, Grant{});
}

void Liveness::OnGrant(ClusterId from, const Header& header) {
  if (!context_.HasRecord() || header.epoch != context_.record().epoch) return;
  if (suspects_since_ == kNever) return;
  grants_.Insert(from);
  if (context_.record().electorate.IsQuorum(grants_)) OnTick();
}

Time Liveness::NextSilence() const {
  Time next = kNever;
  if (!context_.HasRecord()) return next;
  for (ClusterId member : context_.Others()) {
    const Peer& peer = context_.peers[member];
    const Time silent = peer.heard + context_.config.peer_timeout + 1;
    if (peer.ever_heard && silent > context_.now) next = std::min(next, silent);
  }
  return next;
}

}  // namespace causeway::engine
