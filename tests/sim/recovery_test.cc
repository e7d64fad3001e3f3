// Scripted: what operators do to a run, and how it comes back from disks alone.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/sim/script.h"

namespace causeway::sim {
namespace {

TEST_CASE("all gateways restart: the run goes on from the newest checkpoint", "[recovery]") {
  for (int clusters : {2, 3}) {
    CAPTURE(clusters);
    WorldOptions options = Script(clusters);
    options.rollback = engine::RollbackPolicy::kAllHere;
    World world(options);
    REQUIRE(Progresses(world, 0, 30));
    engine::RoundNumber newest = 0;
    for (int id = 0; id < clusters; ++id) world.CrashNode(id, false);
    for (int id = 0; id < clusters; ++id) {
      const auto& saved = world.node(id).disk().checkpoints;
      if (saved.count(0) > 0) newest = std::max(newest, saved.at(0).state.round);
    }
    REQUIRE(newest > 0);
    for (int id = 0; id < clusters; ++id) world.RestartNode(id);
    world.Pass(4 * kPeerTimeout);
    REQUIRE(Progresses(world, 0, 5));
    for (int id = 0; id < clusters; ++id) {
      REQUIRE(world.StatusOf(id).record->lineage == 1);
      REQUIRE(world.StatusOf(id).record->lineage_base[0].round == newest);
    }
  }
}

TEST_CASE("a leader that fetches what the others go on from admits nobody meanwhile",
          "[recovery]") {
  int tried = 0;
  for (uint64_t seed = 0; seed < 400 && tried < 3; ++seed) {
    CAPTURE(seed);
    WorldOptions options = Script(3);
    options.seed = seed;
    options.rollback = engine::RollbackPolicy::kAllHere;
    World world(options);
    REQUIRE(Progresses(world, 0, 30));
    for (int id = 0; id < 3; ++id) world.CrashNode(id, false);
    const auto saved = [&](int id) { return world.node(id).disk().checkpoints.at(0).state.round; };
    if (saved(0) != saved(1) || saved(2) <= saved(0)) continue;
    ++tried;
    const uint64_t before = world.node(2).disk().durable.accepted->epoch.counter;
    world.state_delay = 3 * kPeerTimeout;
    for (int id = 0; id < 3; ++id) world.RestartNode(id);
    world.Pass(20 * kPeerTimeout);
    REQUIRE(Progresses(world, 0, 5));
    for (int id = 0; id < 3; ++id) REQUIRE(world.StatusOf(id).record->members.Contains(1));
    REQUIRE(world.StatusOf(0).record->epoch.counter < before + 10);
  }
  REQUIRE(tried > 0);
}

// What has to be said meanwhile does not wait for the next heartbeat.
TEST_CASE("rounds do not pause long for a joiner", "[recovery]") {
  constexpr int kSeeds = 20;
  Time total = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    WorldOptions options = Script(3);
    options.seed = seed;
    World world(options);
    REQUIRE(Progresses(world, 0, 3));
    world.CrashNode(2, true);
    REQUIRE(Progresses(world, 0, 10));
    world.RestartNode(2);
    Time longest = 0;
    Time pause = 0;
    engine::RoundNumber last = Round(world, 0);
    for (Time spent = 0; !world.StatusOf(0).record->members.Contains(2); spent += kTick) {
      REQUIRE(spent < 10 * kPeerTimeout);
      world.Pass(kTick);
      pause = Round(world, 0) == last ? pause + kTick : 0;
      last = Round(world, 0);
      longest = std::max(longest, pause);
    }
    total += longest;
  }
  REQUIRE(total / kSeeds < 3 * (kPeerTimeout / 5) / 2);  // with heartbeats alone: 5/2
}

TEST_CASE("with a voter missing nothing is undone until the operator says so", "[recovery]") {
  WorldOptions options = Script(3);
  options.rollback = engine::RollbackPolicy::kAllHere;
  World world(options);
  world.approves = false;
  REQUIRE(Progresses(world, 0, 30));
  for (int id = 0; id < 3; ++id) world.CrashNode(id, false);
  for (int id = 0; id < 2; ++id) world.RestartNode(id);
  world.Pass(20 * kPeerTimeout);
  REQUIRE(world.StatusOf(0).phase == Phase::kStalled);
  REQUIRE(world.oracle().counts().rollbacks == 0);
  SECTION("the missing voter comes back") {
    world.RestartNode(2);
    REQUIRE(Progresses(world, 0, 5));
  }
  SECTION("the operator approves") {
    world.Tell(1, engine::ApproveRollback{});  // whoever happens to be the candidate
    REQUIRE(Progresses(world, 0, 5));
  }
}

TEST_CASE("the run stops at one round everywhere, and goes on", "[recovery]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  world.Tell(2, engine::StopRequested{true});  // any member's operator, not only the leader's
  world.Pass(2 * kPeerTimeout);
  for (int id = 0; id < 3; ++id) {
    REQUIRE(world.StatusOf(id).phase == Phase::kHalted);
    REQUIRE(Round(world, id) == Round(world, 0));
  }
  const engine::RoundNumber stopped_at = Round(world, 0);
  world.CrashNode(1, false);  // it is still stopped for who comes back
  world.RestartNode(1);
  world.Pass(8 * kPeerTimeout);
  for (int id = 0; id < 3; ++id) {
    REQUIRE(world.StatusOf(id).phase == Phase::kHalted);
    REQUIRE(Round(world, id) == stopped_at);
  }
  world.Tell(1, engine::StopRequested{false});
  REQUIRE(Progresses(world, 0, 5, 4 * kPeerTimeout));
}

TEST_CASE("a straggler is cut at the deadline, and not twice while it catches up", "[recovery]") {
  WorldOptions options = Script(3);
  options.grace = 20 * kTick;
  World world(options);
  REQUIRE(Progresses(world, 0, 5));
  world.slow_node = 2;
  const uint64_t cuts = world.oracle().counts().cuts;
  REQUIRE(Progresses(world, 0, 10));
  REQUIRE(world.oracle().counts().cuts > cuts);
  REQUIRE(world.StatusOf(2).phase == Phase::kActive);  // late, but a member
  world.slow_node = -1;
  REQUIRE(Progresses(world, 2, 10));
}

TEST_CASE("a cluster leaves for good and the others go on", "[recovery]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  world.Tell(2, engine::LeaveRequested{});
  REQUIRE(Progresses(world, 0, 10));
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1}));
  REQUIRE(world.StatusOf(0).record->electorate.voters == (engine::ClusterSet{0, 1}));
}

}  // namespace
}  // namespace causeway::sim
