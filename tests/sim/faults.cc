// One random fault at a time; most of them end by themselves.
#include "tests/sim/world.h"

namespace causeway::sim {

void World::Isolate(int id) {
  Say(std::string(1, static_cast<char>('A' + id)) + " isolated");
  for (int other = 0; other < clusters_; ++other) {
    if (other == id) continue;
    network_.SetCut(id, other, true);
    network_.SetCut(other, id, true);
    Schedule(static_cast<Time>(30 + random_.Below(300)) * kTick, id, HealLink{other, true});
  }
}

void World::Partition() {
  const uint64_t side = random_.Next();
  Say("partition");
  for (int a = 0; a < clusters_; ++a) {
    for (int b = 0; b < clusters_; ++b) {
      if ((side >> a & 1) != (side >> b & 1)) network_.SetCut(a, b, true);
    }
  }
  Schedule(static_cast<Time>(30 + random_.Below(300)) * kTick, 0, HealAll{});
}

void World::ChangeVoters() {
  for (int id = 0; id < clusters_; ++id) {
    Gateway& gateway = node(id);
    if (!gateway.up() || gateway.frozen) continue;
    const engine::Status status = gateway.engine().Snapshot();
    if (!status.record || status.record->leader != id || !status.installed) continue;
    engine::Electorate next = status.record->electorate;
    const ClusterId other = static_cast<ClusterId>(random_.Below(static_cast<uint64_t>(clusters_)));
    switch (random_.Below(4)) {
      case 0:
        next.voters.Erase(other);
        break;
      case 1:
      case 2:
        next.voters.Insert(other);
        break;
      default:
        next.primary.reset();
        if (random_.Chance(0.6)) next.primary = other;
        break;
    }
    if (next.voters.Empty()) return;
    if (next.primary && !next.voters.Contains(*next.primary)) next.primary.reset();
    Say("voters shall be " + engine::ToString(next.voters));
    Tell(id, engine::ChangeElectorate{next});
    return;
  }
}

void World::Fault() {
  const int id = static_cast<int>(random_.Below(static_cast<uint64_t>(clusters_)));
  Gateway& gateway = node(id);
  if ((profile_ & kClocksJump) != 0 && random_.Chance(0.15)) {
    if (gateway.up()) JumpClock(id, static_cast<Time>(random_.Below(4 * kPeerTimeout)));
    return;
  }
  const uint64_t kind = random_.Below(100);
  if (kind < 18) {
    if (!gateway.up()) return;
    // All disks lost is a new run, not a history of this one.
    bool others_remember = false;
    for (const auto& other : nodes_) {
      others_remember =
          others_remember || (other->id() != id && other->disk().durable.accepted.has_value());
    }
    CrashNode(id, others_remember && random_.Chance(disk_loss_));
    const uint64_t pause = random_.Chance(0.5) ? 20 : 250;
    Schedule(static_cast<Time>(1 + random_.Below(pause)) * kTick, id, Restart{});
  } else if (kind < 36) {
    const int other = static_cast<int>(random_.Below(static_cast<uint64_t>(clusters_)));
    if (id == other) return;
    const bool both = random_.Chance(0.6);
    Say(std::string("link ") + static_cast<char>('A' + id) + (both ? "--" : "->") +
        static_cast<char>('A' + other) + " cut");
    network_.SetCut(id, other, true);
    if (both) network_.SetCut(other, id, true);
    Schedule(static_cast<Time>(20 + random_.Below(300)) * kTick, id, HealLink{other, both});
  } else if (kind < 46) {
    if (!gateway.up() || gateway.frozen) return;
    Freeze(id);
    Schedule(static_cast<Time>(10 + random_.Below(300)) * kTick, id, ThawNode{});
  } else if (kind < 54) {
    Partition();
  } else if (kind < 62) {
    Isolate(id);
  } else if (kind < 78) {
    if (!gateway.trainer().alive || gateway.frozen) return;
    KillTrainer(id);
    Schedule(static_cast<Time>(1 + random_.Below(100)) * kTick, id, TrainerReturns{});
  } else if (kind < 90) {
    if ((profile_ & kVotersChange) != 0) ChangeVoters();
  } else if (kind < 93) {
    if (!gateway.up() || gateway.frozen) return;
    const bool stop = random_.Chance(0.5);
    Say(std::string("the operator of ") + static_cast<char>('A' + id) +
        (stop ? " stops the run" : " lets the run go on"));
    Tell(id, engine::StopRequested{stop});
  } else if ((profile_ & kVotersChange) != 0 && gateway.up() && !gateway.frozen) {
    const engine::Status status = gateway.engine().Snapshot();
    if (status.record && status.record->electorate.voters.Count() > 2) {
      Say(std::string(1, static_cast<char>('A' + id)) + " asks to leave");
      Tell(id, engine::LeaveRequested{});
    }
  }
}

}  // namespace causeway::sim
