// Events in, parts called. What messages may say is checked in believe.cc.
#include "daemon/engine/core.h"

#include <algorithm>
#include <cassert>

namespace causeway::engine {

Core::Core(Config config, Durable durable, uint64_t random_seed)
    : context_(std::move(config), std::move(durable), random_seed),
      ledger_(context_),
      plans_(context_),
      rounds_(context_, ledger_, plans_),
      acceptor_(context_, rounds_),
      candidate_(context_, acceptor_),
      liveness_(context_, candidate_),
      leader_(context_, candidate_, rounds_, ledger_),
      catch_up_(context_, ledger_, rounds_) {}

void Core::Handle(Time now, const Event& event) {
  assert(now >= context_.now && "time goes back");
  // A process that stood still has not heard anybody: that silence is its own.
  const Time late = now - next_tick_;
  if (started_ && late > context_.config.HeartbeatInterval()) context_.peers.Forgive(late);
  context_.now = now;
  std::visit([this](const auto& body) { On(body); }, event);
  if (started_) AfterEvent();
}

void Core::On(const Start& event) {
  assert(!started_);
  started_ = true;
  context_.trainer.absent_since = context_.now;
  context_.started_at = context_.now;
  context_.installed_at = context_.now;
  if (context_.HasRecord()) {
    rounds_.Resize(static_cast<uint32_t>(context_.record().base.size()));
  }
  for (const HeldFragment& held : event.held) {
    ledger_.Load(held);
  }
  rounds_.Resize(ledger_.size());
  if (context_.config.Planted(PlantedFault::kNoIncarnations) && context_.HasRecord()) {
    context_.kept_memory = context_.installed = true;
  }
  next_tick_ = context_.now;
}

void Core::On(const TrainerJoined& event) {
  assert(event.fragments >= 1 && event.fragments <= kFragmentsMax && event.session != 0);
  if (context_.HasRecord()) {
    const Record& record = context_.record();
    const SchemaId ours{record.schema, static_cast<uint32_t>(record.base.size())};
    const bool fits =
        ours == SchemaId{event.schema, event.fragments} ||
        std::find(event.extends.begin(), event.extends.end(), ours) != event.extends.end();
    std::optional<FatalKind> differs;
    if (record.algorithm != event.algorithm) differs = FatalKind::kAlgorithm;
    if (!fits) differs = FatalKind::kSchema;
    if (differs) {
      context_.Act(JoinRefused{event.session, *differs, context_.self()});
      return;
    }
  }
  TrainerSeat& seat = context_.trainer;
  seat.present = seat.ever_present = true;
  seat.session = event.session;
  seat.schema = event.schema;
  seat.algorithm = event.algorithm;
  seat.fragments = event.fragments;
  seat.extends = event.extends;
  seat.has_parameters = event.has_parameters;
  seat.parameters = event.parameters;
  refused_ = {};
  if (!context_.HasRecord()) rounds_.Resize(event.fragments);
  ledger_.ChangeTrainer(event.has_parameters);
  for (int id = 0; id < context_.config.clusters; ++id) {
    const ClusterId peer = static_cast<ClusterId>(id);
    if (peer == context_.self()) continue;
    if (context_.peers[peer].join) CompareDigests(peer, *context_.peers[peer].join);
    if (!context_.Active()) context_.Send(peer, MakeJoin());
  }
  candidate_.FoundIfPossible();
  catch_up_.Check();
  rounds_.AdvanceAll();
}

void Core::On(const TrainerGone& event) {
  TrainerSeat& seat = context_.trainer;
  if (!seat.present || seat.session != event.session) return;
  seat.present = false;
  seat.absent_since = context_.now;
  ledger_.ChangeTrainer(false);
  rounds_.AdvanceAll();
}

void Core::On(const PeerConnected& event) {
  if (event.peer >= context_.config.clusters || event.peer == context_.self()) return;
  context_.peers[event.peer].connected = true;
  Repeat(event.peer, MakeReport());
}

void Core::On(const PeerDisconnected& event) {
  if (event.peer >= context_.config.clusters) return;
  context_.peers[event.peer].connected = false;
}

void Core::On(const Received& event) {
  const Header& header = event.envelope.header;
  if (!Believable(event.from, header, event.envelope.message)) {
    ++context_.dropped;
    return;
  }
  context_.counter_seen = std::max(context_.counter_seen, header.epoch.counter);
  Dispatch(event.from, header, event.envelope.message);
}

void Core::On(const Progress& event) {
  if (event.from >= context_.config.clusters || event.from == context_.self()) return;
  const Peer& peer = context_.peers[event.from];
  if (peer.ever_heard && peer.incarnation == event.incarnation) {
    context_.peers.Hear(event.from, event.incarnation, context_.now);
  }
}

void Core::On(const Submit& event) {
  assert(context_.trainer.present && event.fragment < ledger_.size());
  ledger_.Submit(event);
  rounds_.Advance(event.fragment);
}

void Core::On(const ResultHeld& event) { rounds_.OnResultHeld(event); }

void Core::On(const StateHeld& event) { catch_up_.OnStateHeld(event); }

void Core::On(const StateFailed& event) { catch_up_.OnStateFailed(event); }

void Core::On(const Persisted& event) {
  context_.OnPersisted(event.token);
  candidate_.OnPersisted();
}

void Core::On(const ChangeElectorate& event) {
  if (context_.Active() && context_.Leader()) {
    leader_.Wish(event.electorate);
  } else {
    context_.Note("a change of voters is refused here: ask the leader");
  }
}

void Core::On(const TrainerApplied& event) {
  assert(event.fragment < ledger_.size());
  if (!context_.trainer.present) return;
  ledger_[event.fragment].applied = event.round;
  rounds_.Advance(event.fragment);
}

void Core::On(const LeaveRequested&) { context_.leaving = true; }

void Core::On(const StopRequested& event) {
  context_.stop_wish = event.stop;
  const bool fulfilled = context_.installed && context_.record().stopped == event.stop;
  if (fulfilled) context_.stop_wish.reset();
}

void Core::On(const ApproveRollback&) { context_.rollback_approved = true; }

void Core::On(const ProposePlan& event) { plans_.Propose(event.from_round, event.body); }

void Core::On(const Timer&) { rounds_.OnTimer(); }

void Core::Dispatch(ClusterId from, const Header& header, const Message& message) {
  if (const auto* join = std::get_if<Join>(&message)) {
    OnJoin(from, header, *join);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    OnHeartbeat(from, heartbeat->report);
  } else if (const auto* contribution = std::get_if<Contribution>(&message)) {
    rounds_.OnContribution(from, header, *contribution);
  } else if (const auto* complete = std::get_if<Complete>(&message)) {
    rounds_.OnComplete(from, header, *complete);
  } else if (const auto* committed = std::get_if<Committed>(&message)) {
    rounds_.OnCommitted(header, *committed);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    rounds_.OnReady(from, header, *ready);
  } else if (const auto* withdraw = std::get_if<Withdraw>(&message)) {
    rounds_.OnWithdraw(from, header, *withdraw);
  } else if (const auto* cut = std::get_if<Cut>(&message)) {
    rounds_.OnCut(from, header, *cut);
  } else if (const auto* plan = std::get_if<Plan>(&message)) {
    plans_.OnPlan(from, *plan);
    rounds_.AdvanceAll();
  } else if (std::holds_alternative<PreVote>(message)) {
    liveness_.OnPreVote(from, header);
  } else if (std::holds_alternative<Grant>(message)) {
    liveness_.OnGrant(from, header);
  } else if (const auto* prepare = std::get_if<Prepare>(&message)) {
    acceptor_.OnPrepare(from, header, *prepare);
    candidate_.OnFenced();
  } else if (const auto* promise = std::get_if<Promise>(&message)) {
    candidate_.OnPromise(from, header, *promise);
  } else if (const auto* install = std::get_if<Install>(&message)) {
    acceptor_.OnInstall(from, *install);
    candidate_.OnFenced();
  } else if (std::holds_alternative<Accepted>(message)) {
    candidate_.OnAccepted(from, header);
  } else if (std::holds_alternative<Installed>(message)) {
    acceptor_.OnInstalled(header);
    catch_up_.Check();
  } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
    catch_up_.OnFetch(from, *fetch);
  } else if (const auto* state = std::get_if<State>(&message)) {
    catch_up_.OnState(from, *state);
  }
}

void Core::OnHeartbeat(ClusterId from, const Report& report) {
  context_.peers[from].report = report;
  CompareGrowth(from, report);
  acceptor_.OnReport(report);
  LearnFragments(from, report);
  const bool lags = context_.Leader() && context_.installed && report.kept_memory &&
                    report.accepted == context_.record().epoch && !report.installed;
  if (lags) context_.Send(from, Installed{});
  if (context_.HasRecord() && from == context_.record().leader && !context_.Leader()) {
    const bool draining = report.draining && report.accepted == context_.record().epoch;
    const bool resumes = context_.draining && !draining;
    context_.draining = draining;
    if (resumes) rounds_.AdvanceAll();
  }
  rounds_.OnReport(from, report);
  if (!context_.Active()) catch_up_.Check();
  if (report.wants_join && context_.Leader()) leader_.OnTick();
}

// A blank gateway without a trainer learns the number of fragments from the run, and one that was
// away while the run grew.
void Core::LearnFragments(ClusterId from, const Report& report) {
  const bool newer =
      report.active && (!context_.HasRecord() || report.accepted > context_.record().epoch);
  if (!newer) return;
  const bool grown = context_.HasRecord() && report.fragments.size() > ledger_.size();
  if (ledger_.size() == 0 || grown) {
    rounds_.Resize(static_cast<uint32_t>(report.fragments.size()));
  }
  const TrainerSeat& trainer = context_.trainer;
  const bool lacks = context_.HasRecord() && trainer.present && trainer.fragments < ledger_.size();
  if (!lacks || refused_.Contains(from)) return;
  refused_.Insert(from);
  context_.Act(JoinRefused{trainer.session, FatalKind::kSchema, from});
}

Join Core::MakeJoin() const {
  Join join;
  const TrainerSeat& trainer = context_.trainer;
  if (context_.HasRecord()) {
    join.schema_known = true;
    join.schema = context_.record().schema;
    join.algorithm = context_.record().algorithm;
    join.fragments = static_cast<uint32_t>(context_.record().base.size());
  } else if (trainer.present) {
    join.schema_known = true;
    join.schema = trainer.schema;
    join.algorithm = trainer.algorithm;
    join.fragments = trainer.fragments;
    join.has_parameters = trainer.has_parameters;
    join.parameters = trainer.parameters;
  }
  join.virgin = !context_.HasRecord();
  join.promised = context_.durable.promised;
  return join;
}

void Core::CompareDigests(ClusterId from, const Join& join) {
  if (context_.HasRecord() || !join.schema_known || !context_.trainer.present) return;
  const TrainerSeat& trainer = context_.trainer;
  const SchemaId theirs{join.schema, join.fragments};
  // A run that exists may be joined with more tensors: it then grows.
  const bool fits = theirs == SchemaId{trainer.schema, trainer.fragments} ||
                    (!join.virgin && trainer.Extends(theirs));
  std::optional<FatalKind> differs;
  if (join.algorithm != trainer.algorithm) differs = FatalKind::kAlgorithm;
  if (!fits) differs = FatalKind::kSchema;
  if (!differs) {
    refused_.Erase(from);
    return;
  }
  if (refused_.Contains(from)) return;
  refused_.Insert(from);
  context_.Act(JoinRefused{trainer.session, *differs, from});
}

// Trainers that came with different new tensors are told so: the run would never grow.
void Core::CompareGrowth(ClusterId from, const Report& report) {
  const std::optional<Growth> wish = context_.GrowthWish();
  if (!wish || !report.growth || report.accepted != context_.record().epoch) return;
  if (report.growth->schema == wish->schema) {
    refused_.Erase(from);
    return;
  }
  if (refused_.Contains(from)) return;
  refused_.Insert(from);
  context_.Act(JoinRefused{context_.trainer.session, FatalKind::kSchema, from});
}

void Core::OnJoin(ClusterId from, const Header& header, const Join& body) {
  Peer& peer = context_.peers[from];
  peer.join = body;
  peer.join_is_fresh = header.to_incarnation == context_.config.incarnation;
  CompareDigests(from, body);
  if (header.to_incarnation == 0) context_.Send(from, MakeJoin());
  candidate_.FoundIfPossible();
}

Report Core::MakeReport() const {
  Report report = acceptor_.MakeReport();
  report.fetching = catch_up_.FetchingAny();
  return report;
}

void Core::Repeat(ClusterId to, const Report& report) {
  if (!context_.Active()) context_.Send(to, MakeJoin());
  context_.Send(to, Heartbeat{report});
  candidate_.Repeat(to);
  plans_.Repeat(to);
  rounds_.Repeat(to);
}

void Core::StepHorizon() {
  std::vector<uint64_t> named(static_cast<size_t>(context_.config.clusters), 0);
  for (size_t id = 0; id < named.size(); ++id) {
    const Report* report = context_.peers.LiveReport(static_cast<ClusterId>(id), context_.now);
    if (report) named[id] = report->promised.counter;
  }
  context_.horizon.Step(
      context_.counter_seen, std::move(named),
      context_.HasRecord() ? context_.record().electorate : context_.config.electorate,
      context_.self());
}

void Core::Tick() {
  StepHorizon();
  const Report report = MakeReport();
  for (int id = 0; id < context_.config.clusters; ++id) {
    if (id != context_.self()) Repeat(static_cast<ClusterId>(id), report);
  }
  candidate_.OnTick();
  candidate_.FoundIfPossible();
  catch_up_.OnTick();
  rounds_.OnTimer();
}

void Core::AfterEvent() {
  if (context_.now >= next_tick_) {
    next_tick_ = context_.now + context_.config.HeartbeatInterval();
    Tick();
    leader_.OnTick();
    liveness_.OnTick();
  }
  // A silence that just became too long, or a voice that came back: act on it now.
  const ClusterSet alive = context_.peers.AliveSet(context_.now);
  if (!(alive == alive_)) {
    alive_ = alive;
    leader_.OnTick();
    liveness_.OnTick();
    rounds_.AdvanceAll();
  }
  const bool active = context_.Active();
  if (active != was_active_) {
    was_active_ = active;
    catch_up_.Check();
    rounds_.AdvanceAll();
  }
  TellChanges();
}

// Clusters that are heard and would take part.
ClusterSet Core::Joiners() const {
  ClusterSet out;
  for (int id = 0; id < context_.config.clusters; ++id) {
    const ClusterId peer = static_cast<ClusterId>(id);
    if (peer == context_.self() || context_.record().members.Contains(peer)) continue;
    const Report* report = context_.peers.LiveReport(peer, context_.now);
    if (report && report->wants_join) out.Insert(peer);
  }
  return out;
}

// A joiner and those that pause for it wait for each other's words: what a joiner holds, what it
// lacks, and whether rounds pause is said at once. With heartbeats alone a pause takes several.
void Core::TellChanges() {
  const bool moved = std::exchange(moves_told_, context_.moves) != context_.moves;
  const bool leads = context_.Active() && context_.Leader();
  ClusterSet to;
  if (moved && leads) {
    to = Joiners();
    if (!to.Empty()) leader_.OnTick();
  } else if (moved && !context_.Active()) {
    to = context_.peers.AliveSet(context_.now);
  }
  const bool drains = leads && context_.draining;
  if (std::exchange(drains_told_, drains) != drains) {
    if (leads) to = to | context_.Others();
    if (!drains) rounds_.AdvanceAll();
  }
  to.Erase(context_.self());
  if (to.Empty()) return;
  const Report report = MakeReport();
  for (ClusterId peer : to) context_.Send(peer, Heartbeat{report});
}

Time Core::NextTimer() const {
  if (!started_) return kNever;
  return std::min({next_tick_, liveness_.NextSilence(), rounds_.NextDeadline()});
}

}  // namespace causeway::engine
