// The queue of things to happen and what each of them does. Faults are in faults.cc, the end of a
// run in peace.cc.
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "daemon/engine/plans.h"
#include "daemon/engine/votes.h"

namespace causeway::sim {
namespace {

constexpr Time kLanePeriod = 12 * kTick;
constexpr uint64_t kBoundsEvery = 64;
constexpr uint64_t kEventsMax = 3'000'000;

}  // namespace

World::World(const WorldOptions& options)
    : options_(options),
      random_(options.seed * 7919 + 17),
      clusters_(options.clusters != 0 ? options.clusters : 2 + static_cast<int>(random_.Below(4))),
      fragments_(options.fragments != 0 ? options.fragments
                                        : 1 + static_cast<int>(random_.Below(3))),
      network_(clusters_, random_) {
  engine::Config config;
  config.clusters = clusters_;
  config.peer_timeout = kPeerTimeout;
  config.hash = MixHash;
  config.electorate.voters = engine::ClusterSet::FirstOf(clusters_);
  config.seed_cluster = 0;
  network_.delay_max = 3 * kTick;
  if (options_.scripted) {
    if (options_.primary >= 0) config.electorate.primary = static_cast<ClusterId>(options_.primary);
    config.rollback = options_.rollback;
    if (options_.grace > 0) {
      config.straggler = engine::StragglerPolicy::kDeadline;
      config.deadline_grace = options_.grace;
    }
  } else {
    if (random_.Chance(0.5)) config.electorate.primary = 0;
    config.rollback = random_.Chance(0.5)   ? engine::RollbackPolicy::kAuto
                      : random_.Chance(0.4) ? engine::RollbackPolicy::kAsk
                                            : engine::RollbackPolicy::kAllHere;
    if (random_.Chance(0.4)) {
      config.straggler = engine::StragglerPolicy::kDeadline;
      config.deadline_grace = static_cast<Time>(20 + random_.Below(100)) * kTick;
    }
    profile_ = static_cast<int>(random_.Below(kProfiles / 2));
    if (random_.Chance(0.1)) profile_ |= kHostile;
    if (options_.profile) profile_ = *options_.profile;
    network_.loss = random_.Chance(0.5) ? 0.02 : 0.1 * static_cast<double>(random_.Below(3));
    network_.duplication = 0.05 * static_cast<double>(random_.Below(4));
    network_.delay_max = (random_.Chance(0.3) ? 3 : random_.Chance(0.6) ? 25 : 60) * kTick;
    fault_pace_ = static_cast<Time>(15 + random_.Below(80)) * kTick;
    disk_loss_ = (profile_ & kDisksLost) != 0 ? 0.45 : 0.1;
  }
#ifdef CAUSEWAY_ENGINE_FAULTS
  config.faults = options_.faults;
#endif
  frozen_.resize(static_cast<size_t>(clusters_));
  timer_generation_.assign(static_cast<size_t>(clusters_), 0);
  timer_at_.assign(static_cast<size_t>(clusters_), engine::kNever);
  clocks_.assign(static_cast<size_t>(clusters_), 0);
  for (int id = 0; id < clusters_; ++id) {
    config.self = static_cast<ClusterId>(id);
    nodes_.push_back(std::make_unique<Gateway>(id, config, fragments_ + options_.grows_by,
                                               fragments_, *this, oracle_, random_));
  }
  for (int id = 0; id < clusters_; ++id) {
    RestartNode(id);
    StartTrainer(id);
    Schedule(static_cast<Time>(random_.Below(kLanePeriod)), id, LaneTick{});
    if (options_.grows_by > 0 && !options_.scripted) {
      Schedule(static_cast<Time>(50 + random_.Below(700)) * kTick, id, GrowthDue{});
    }
  }
  fragments_ += options_.grows_by;
  if ((profile_ & kHostile) != 0) {
    hostile_ = static_cast<int>(random_.Below(static_cast<uint64_t>(clusters_)));
    Schedule(kPeerTimeout, hostile_, ForgeryDue{});
  }
}

World::~World() = default;

void World::Say(const std::string& text) {
  if (options_.trace)
    std::printf("%9.2f  -- %s\n", static_cast<double>(now_) / kTick, text.c_str());
}

void World::Trace(int node, const std::string& text) {
  std::printf("%9.2f %c %s\n", static_cast<double>(now_) / kTick, 'A' + node, text.c_str());
}

void World::TraceArrival(int node, const engine::Received& received) {
  if (std::holds_alternative<engine::Heartbeat>(received.envelope.message)) return;
  Trace(node, std::string("  <- ") + static_cast<char>('A' + received.from) + " " +
                  engine::Describe(received.envelope));
}

bool World::Step(Time until) {
  if (queue_.empty() || queue_.top().at() > until) return false;
  const Item item = queue_.top();
  queue_.pop();
  now_ = item.at();
  if (++outcome_.events > kEventsMax) throw Violation("RUNAWAY: too many events");
  Happen(item.node, *slots_[item.slot]);
  free_slots_.push_back(item.slot);
  return true;
}

void World::Pass(Time duration) {
  const Time until = now_ + duration;
  while (Step(until)) {
  }
  now_ = until;
}

void World::ArmTimer(int id) {
  const size_t at = static_cast<size_t>(id);
  Gateway& gateway = node(id);
  if (!gateway.up() || gateway.frozen) return;
  const Time next = gateway.engine().NextTimer();
  if (next == engine::kNever || next == timer_at_[at]) return;
  timer_at_[at] = next;
  Schedule(std::max<Time>(next - Clock(id), 0), id, TimerDue{++timer_generation_[at]});
}

void World::CheckFatal(int id) {
  if (node(id).fatal()) {
    throw Violation(std::string("STOPPED: ") + static_cast<char>('A' + id) + ": " +
                    node(id).fatal_words());
  }
}

void World::Happen(int id, Happening& what) {
  Gateway& gateway = node(id);
  const bool for_process =
      std::holds_alternative<Arrive>(what) || std::holds_alternative<DataArrives>(what) ||
      std::holds_alternative<StateArrives>(what) || std::holds_alternative<Fsynced>(what) ||
      std::holds_alternative<Reduced>(what) || std::holds_alternative<TrainerAttaches>(what);
  if (for_process) {
    if (!gateway.up()) return;
    if (gateway.frozen) {
      frozen_[static_cast<size_t>(id)].emplace_back(id, std::move(what));
      return;
    }
  }
  if (auto* arrive = std::get_if<Arrive>(&what)) {
    if (options_.trace) TraceArrival(id, std::get<engine::Received>(arrive->received));
    gateway.Handle(Clock(id), arrive->received);
  } else if (auto* data = std::get_if<DataArrives>(&what)) {
    gateway.OnData(Clock(id), data->from, data->packet);
  } else if (auto* state = std::get_if<StateArrives>(&what)) {
    gateway.OnState(Clock(id), state->from, state->packet);
  } else if (auto* fsynced = std::get_if<Fsynced>(&what)) {
    if (fsynced->incarnation == gateway.incarnation())
      gateway.OnFsynced(Clock(id), fsynced->persist);
  } else if (auto* computed = std::get_if<Computed>(&what)) {
    if (gateway.frozen) {
      Schedule(10 * kTick, id, std::move(what));
    } else if (computed->session == gateway.trainer().session && gateway.trainer().alive) {
      gateway.OnComputed(Clock(id), computed->fragment);
    }
  } else if (auto* reduced = std::get_if<Reduced>(&what)) {
    if (reduced->incarnation == gateway.incarnation()) gateway.Handle(Clock(id), reduced->held);
  } else if (auto* timer = std::get_if<TimerDue>(&what)) {
    const size_t at = static_cast<size_t>(id);
    if (timer->generation != timer_generation_[at] || !gateway.up() || gateway.frozen) return;
    timer_at_[at] = engine::kNever;
    gateway.Handle(Clock(id), engine::Timer{});
  } else if (std::holds_alternative<LaneTick>(what)) {
    if (gateway.up() && !gateway.frozen) gateway.RepeatData(Clock(id));
    Schedule(kLanePeriod, id, LaneTick{});
  } else if (std::holds_alternative<Restart>(what)) {
    if (!stays_down_.Contains(static_cast<ClusterId>(id))) RestartNode(id);
  } else if (auto* heal = std::get_if<HealLink>(&what)) {
    network_.SetCut(id, heal->other, false);
    if (heal->both) CutLink(id, heal->other, false);
  } else if (std::holds_alternative<HealAll>(what)) {
    network_.Heal();
  } else if (std::holds_alternative<ThawNode>(what)) {
    Thaw(id);
  } else if (std::holds_alternative<TrainerReturns>(what)) {
    if (gateway.trainer().alive) return;
    if (gateway.frozen) {
      Schedule(20 * kTick, id, TrainerReturns{});
    } else {
      StartTrainer(id);
    }
  } else if (auto* attach = std::get_if<TrainerAttaches>(&what)) {
    const Trainer& trainer = gateway.trainer();
    if (attach->incarnation == gateway.incarnation() && trainer.alive && !trainer.attached &&
        trainer.session == attach->session) {
      gateway.AttachTrainer(Clock(id));
    }
  } else if (std::holds_alternative<GrowthDue>(what)) {
    if (!gateway.frozen) GrowTrainer(id);
  } else if (std::holds_alternative<FaultDue>(what)) {
    if (peace_) return;
    Fault();
    Schedule(1 + static_cast<Time>(random_.Below(static_cast<uint64_t>(2 * fault_pace_))), 0,
             FaultDue{});
  } else if (std::holds_alternative<ForgeryDue>(what)) {
    if (peace_) return;
    ForgeAnything();
    Schedule(static_cast<Time>(1 + random_.Below(6 * kTick)), id, ForgeryDue{});
  }
  CheckFatal(id);
  if (outcome_.events % kBoundsEvery == 0) CheckBounds(id);
  ArmTimer(id);
}

// What an engine keeps is bounded by clusters and fragments, whatever the others say.
void World::CheckBounds(int id) {
  if (!node(id).up()) return;
  const engine::Kept kept = node(id).engine().CountKept();
  const auto clusters = static_cast<size_t>(clusters_);
  const auto fragments = static_cast<size_t>(fragments_);
  const bool within = kept.votes <= engine::kVotesKeptPerCluster * clusters * fragments &&
                      kept.records <= engine::kCommitRecordsKept * fragments &&
                      kept.held <= 4 * clusters && kept.plans <= engine::kPlansKept * clusters;
  if (!within) throw Violation("UNBOUNDED: what an engine keeps");
}

void World::JumpClock(int id, Time by) {
  Say(std::string("the clock of ") + static_cast<char>('A' + id) + " jumps");
  clocks_[static_cast<size_t>(id)] += by;
  timer_at_[static_cast<size_t>(id)] = engine::kNever;
  ArmTimer(id);
}

void World::SendEnvelope(int from, engine::Send& send) {
  const int to = send.to;
  if (network_.Loses(from, to)) return;
  if (loses && loses(from, to, send.envelope.message)) return;
  Arrive arrive{engine::Received{static_cast<ClusterId>(from), std::move(send.envelope)}};
  if (network_.Doubles()) Schedule(network_.Delay() * 3, to, arrive);
  Schedule(network_.Delay(), to, std::move(arrive));
}

void World::SendData(int from, int to, const DataPacket& packet) {
  if (network_.Loses(from, to)) return;
  Schedule(network_.Delay() + static_cast<Time>(random_.Below(5 * kTick)), to,
           DataArrives{from, packet});
}

void World::SendState(int from, int to, const StatePacket& packet) {
  if (network_.Loses(from, to)) return;
  Schedule(network_.Delay() + (packet.request ? 0 : state_delay), to, StateArrives{from, packet});
}

void World::AfterFsync(int id, engine::Incarnation incarnation, const engine::Persist& persist) {
  Schedule(static_cast<Time>(1 + random_.Below(2 * kTick)), id, Fsynced{incarnation, persist});
}

void World::AfterCompute(int id, uint64_t session, FragmentId fragment) {
  const bool slow = id == slow_node || (!options_.scripted && random_.Chance(0.04));
  const uint64_t longest = slow ? 400 : 15;
  Schedule(static_cast<Time>(1 + random_.Below(longest * kTick)), id, Computed{session, fragment});
}

void World::AfterReduce(int id, engine::Incarnation incarnation, const engine::ResultHeld& held) {
  Schedule(static_cast<Time>(1 + random_.Below(2 * kTick)), id, Reduced{incarnation, held});
}

void World::AfterRefusal(int id) {
  Say(std::string("trainer ") + static_cast<char>('A' + id) + " is refused");
  Schedule(30 * kTick, id, TrainerReturns{});
}

bool World::Holds(int id, int from, const DataPacket& packet) {
  Gateway& gateway = node(id);
  return gateway.up() && gateway.Holds(from, packet);
}

void World::CutLink(int a, int b, bool cut) {
  network_.SetCut(a, b, cut);
  network_.SetCut(b, a, cut);
  if (cut) return;
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    if (node(here).up() && !node(here).frozen && random_.Chance(0.5)) {
      Tell(here, engine::PeerConnected{static_cast<ClusterId>(there)});
    }
  }
}

void World::CrashNode(int id, bool disk_lost) {
  Say(std::string(1, static_cast<char>('A' + id)) + " CRASHES" + (disk_lost ? ", disk lost" : ""));
  ++outcome_.crashes;
  frozen_[static_cast<size_t>(id)].clear();
  node(id).Crash(disk_lost);
  ++timer_generation_[static_cast<size_t>(id)];
  timer_at_[static_cast<size_t>(id)] = engine::kNever;
}

void World::RestartNode(int id) {
  if (node(id).up()) return;
  Say(std::string(1, static_cast<char>('A' + id)) + " starts");
  node(id).Boot(Clock(id), ++incarnations_);
  if (node(id).trainer().alive) {
    Schedule(static_cast<Time>(1 + random_.Below(20 * kTick)), id,
             TrainerAttaches{node(id).incarnation(), node(id).trainer().session});
  }
  ArmTimer(id);
}

void World::BeginAnew() {
  for (const auto& gateway : nodes_) {
    if (gateway->up() || !gateway->disk().durable.Blank()) throw Violation("SCRIPT: not all lost");
  }
  oracle_ = Oracle();
}

void World::KillTrainer(int id) {
  if (!node(id).trainer().alive) return;
  Say(std::string("trainer ") + static_cast<char>('A' + id) + " dies");
  node(id).StopTrainer(Clock(id), true);
  ArmTimer(id);
}

void World::StartTrainer(int id) {
  Say(std::string("trainer ") + static_cast<char>('A' + id) + " starts");
  node(id).StartTrainer(Clock(id), ++sessions_);
  ArmTimer(id);
}

// Not while the run is being founded with fewer tensors: who brings more is refused.
void World::GrowTrainer(int id) {
  if (node(id).trainer().grown) return;
  if (oracle_.records().empty()) {
    for (const auto& gateway : nodes_) {
      if (gateway->disk().durable.accepted) return;
    }
  }
  KillTrainer(id);
  node(id).trainer().grown = true;
  StartTrainer(id);
}

void World::Freeze(int id) {
  if (!node(id).up()) return;
  Say(std::string(1, static_cast<char>('A' + id)) + " FREEZES");
  node(id).frozen = true;
}

void World::Thaw(int id) {
  if (!node(id).frozen) return;
  Say(std::string(1, static_cast<char>('A' + id)) + " thaws");
  node(id).frozen = false;
  timer_at_[static_cast<size_t>(id)] = engine::kNever;
  if (random_.Chance(0.5)) Tell(id, engine::Timer{});
  for (auto& [node_id, what] : std::exchange(frozen_[static_cast<size_t>(id)], {})) {
    Schedule(static_cast<Time>(random_.Below(10 * kTick)), node_id, std::move(what));
  }
  ArmTimer(id);
}

void World::Tell(int id, const engine::Event& event) {
  if (!node(id).up()) return;
  node(id).Handle(Clock(id), event);
  CheckFatal(id);
  ArmTimer(id);
}

}  // namespace causeway::sim
