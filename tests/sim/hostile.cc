// A member that lies about numbers: epochs, lineages, rounds and attempts that no run reaches, and
// plans of nobody. It may cost the others time, never the run.
//
// Its own engine goes on beside the lies and keeps its word: who lies about what it holds or has
// promised could fork any run, and is no subject of this protocol.
#include <utility>

#include "daemon/engine/horizon.h"
#include "tests/sim/world.h"

namespace causeway::sim {

void World::Forge(int from, int to, const engine::Epoch& epoch, engine::Message message) {
  if (from == to || !node(from).up() || !node(to).up()) return;
  engine::Send send;
  send.to = static_cast<ClusterId>(to);
  send.envelope.header = {epoch, 0, node(from).incarnation(), node(to).incarnation()};
  send.envelope.message = std::move(message);
  if (options_.trace) Trace(from, "forges " + engine::Describe(send.envelope));
  SendEnvelope(from, send);
}

void World::ForgeAnything() {
  const int to = static_cast<int>(random_.Below(static_cast<uint64_t>(clusters_)));
  if (to == hostile_ || !node(hostile_).up() || node(hostile_).frozen || !node(to).up()) return;
  const engine::Status status = StatusOf(hostile_);
  const auto self = static_cast<ClusterId>(hostile_);
  const uint64_t near = status.promised.counter + 1 + random_.Below(2 * engine::kEpochLeadMax);
  const uint64_t counters[] = {near, near, engine::kEpochCounterMax, ~uint64_t{0}};
  const engine::Epoch far{counters[random_.Below(4)], self};
  const engine::Epoch now = status.record ? status.record->epoch : engine::Epoch{};
  const engine::RoundNumber rounds[] = {engine::kRoundMax, INT64_MAX, -1};
  const engine::RoundNumber round = rounds[random_.Below(3)];
  switch (random_.Below(10)) {
    case 0:
      Forge(hostile_, to, far, engine::Prepare{});
      return;
    case 1: {
      engine::Heartbeat heartbeat;
      heartbeat.report.promised = far;
      heartbeat.report.blank = false;
      Forge(hostile_, to, now, heartbeat);
      return;
    }
    case 2: {
      engine::Join join;
      join.promised = far;
      Forge(hostile_, to, now, join);
      return;
    }
    case 3:
      Forge(hostile_, to, far, engine::PreVote{});
      return;
    case 4:
      Forge(hostile_, to, random_.Chance(0.5) ? now : far,
            engine::Contribution{0, round, {1, random_.Next()}, ~uint64_t{0}, random_.Next()});
      return;
    case 5:
      Forge(hostile_, to, far, engine::Cut{0, round, ~engine::Attempt{0}, {}});
      return;
    case 6: {
      engine::Complete complete;
      complete.round = round;
      complete.attempt = ~engine::Attempt{0};
      Forge(hostile_, to, random_.Chance(0.5) ? now : far, complete);
      return;
    }
    case 7:
      Forge(hostile_, to, now, engine::Withdraw{0, round, ~engine::Attempt{0}, true});
      return;
    case 8:
      Forge(hostile_, to, now, engine::Fetch{0, true, {~engine::Lineage{0}, round, {}}});
      return;
    default:
      Forge(hostile_, to, now,
            engine::Plan{now.counter << 24 | random_.Below(uint64_t{1} << 24), 1, "none"});
  }
}

}  // namespace causeway::sim
