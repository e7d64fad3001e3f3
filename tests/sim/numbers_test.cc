// Scripted: what a member that lies about numbers, or a clock that jumps, does to the others.
#include <catch2/catch.hpp>

#include "daemon/engine/horizon.h"
#include "tests/sim/script.h"

namespace causeway::sim {
namespace {

// C says so to both others.
void Lie(World& world, const engine::Epoch& epoch) {
  engine::Heartbeat heartbeat;
  heartbeat.report.promised = epoch;
  engine::Join join;
  join.promised = epoch;
  for (int to : {0, 1}) {
    world.Forge(2, to, epoch, engine::Prepare{});
    world.Forge(2, to, epoch, engine::PreVote{});
    world.Forge(2, to, world.StatusOf(2).record->epoch, heartbeat);
    world.Forge(2, to, world.StatusOf(2).record->epoch, join);
  }
}

TEST_CASE("a member that names the highest epochs does not end the run", "[numbers]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  for (int i = 0; i < 200; ++i) {
    Lie(world, {i % 2 == 0 ? engine::kEpochCounterMax : ~uint64_t{0}, 2});
    world.Pass(kTick);
  }
  for (int id : {0, 1}) REQUIRE(world.StatusOf(id).promised.counter < engine::kEpochLeadMax);
  // The next memberships are agreed as ever, without the liar and with it.
  world.CrashNode(1, false);
  world.RestartNode(1);
  REQUIRE(Progresses(world, 0, 5));
  Isolate(world, 2, true);
  REQUIRE(Progresses(world, 0, 5));
  Isolate(world, 2, false);
  world.Pass(8 * kPeerTimeout);
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1, 2}));
}

TEST_CASE("a member that pushes epochs as far as it is believed moves them with the heartbeats",
          "[numbers]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  const Time began = world.now();
  for (int i = 0; i < 300; ++i) {
    for (int to : {0, 1}) {
      const uint64_t promised = world.StatusOf(to).promised.counter;
      for (uint64_t lead : {engine::kEpochLeadMax, engine::kEpochLeadMax / 2, uint64_t{1}}) {
        world.Forge(2, to, {promised + lead, 2}, engine::Prepare{});
      }
    }
    world.Pass(kTick);
  }
  const auto heartbeats = static_cast<uint64_t>((world.now() - began) / (kPeerTimeout / 5)) + 3;
  for (int id : {0, 1}) {
    REQUIRE(world.StatusOf(id).promised.counter < heartbeats * engine::kEpochLeadMax);
  }
  REQUIRE(Progresses(world, 0, 5));
}

TEST_CASE("a clock that jumps evicts nobody", "[numbers]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  for (int id : {0, 1, 2}) {
    world.JumpClock(id, 10 * kPeerTimeout);
    world.Pass(kPeerTimeout);
  }
  REQUIRE(Progresses(world, 0, 3));
  REQUIRE(world.oracle().records().size() == 1);
}

}  // namespace
}  // namespace causeway::sim
