// Scripted: a run was forgotten everywhere and founded anew, and a state of the earlier founding
// comes back. It has higher epochs and rounds, and none of them may count.
#include <catch2/catch.hpp>

#include "tests/sim/script.h"

namespace causeway::sim {
namespace {

// The disk of the last cluster from before the run was founded anew, with higher epochs than the
// run has now.
Disk FoundAnew(World& world) {
  const int last = world.clusters() - 1;
  REQUIRE(Progresses(world, 0, 40));
  for (int i = 0; i < 3; ++i) {
    world.CrashNode(last, false);
    world.RestartNode(last);
    REQUIRE(Progresses(world, 0, 10));
  }
  REQUIRE(Progresses(world, last, 10));
  const Disk old = world.node(last).disk();
  REQUIRE(old.durable.accepted);
  REQUIRE(old.checkpoints.count(0) > 0);
  for (int id = 0; id < world.clusters(); ++id) {
    world.KillTrainer(id);
    world.CrashNode(id, true);
  }
  world.BeginAnew();
  for (int id = 0; id < world.clusters(); ++id) {
    world.RestartNode(id);
    world.StartTrainer(id);
  }
  REQUIRE(Progresses(world, 0, 5));
  const engine::Record now = *world.StatusOf(0).record;
  REQUIRE(now.epoch < old.durable.accepted->epoch);
  REQUIRE(now.founding != old.durable.accepted->founding);
  REQUIRE(Round(world, 0) < old.checkpoints.at(0).state.round);
  return old;
}

TEST_CASE("an old disk that is put back after the run was founded anew is not heard",
          "[founding]") {
  for (int clusters : {2, 3, 4}) {
    CAPTURE(clusters);
    World world(Script(clusters, clusters == 2 ? 0 : -1));
    const Disk old = FoundAnew(world);
    const engine::FoundingId founding = world.StatusOf(0).record->founding;
    const int last = clusters - 1;
    world.CrashNode(last, false);
    world.node(last).PutBack(old);
    world.RestartNode(last);
    world.Pass(3 * kPeerTimeout);
    REQUIRE(Progresses(world, 0, 10));
    for (int id = 0; id < clusters; ++id) {
      const engine::Status status = world.StatusOf(id);
      const engine::ClusterSet old_ones{last};
      const engine::ClusterSet others = engine::ClusterSet::FirstOf(clusters) - old_ones;
      REQUIRE(status.record->founding == (id == last ? old.durable.accepted->founding : founding));
      REQUIRE(status.foreign == (id == last ? others : old_ones));
      REQUIRE((status.phase == Phase::kActive) == (id != last));
      if (id != last) REQUIRE(status.record->members == others);
    }
    // Its operator forgets it there: it joins the run that there is.
    world.CrashNode(last, true);
    world.RestartNode(last);
    world.Pass(4 * kPeerTimeout);
    REQUIRE(Progresses(world, last, 5));
    for (int id = 0; id < clusters; ++id) {
      REQUIRE(world.StatusOf(id).record->founding == founding);
      REQUIRE(world.StatusOf(id).foreign.Empty());
      REQUIRE(world.StatusOf(id).record->members == engine::ClusterSet::FirstOf(clusters));
    }
  }
}

TEST_CASE("an old disk and a blank one make no run against the one that there is", "[founding]") {
  World world(Script(3));
  const Disk old = FoundAnew(world);
  const engine::FoundingId founding = world.StatusOf(0).record->founding;
  world.CrashNode(2, false);
  world.node(2).PutBack(old);
  world.CrashNode(1, true);
  world.RestartNode(2);
  world.RestartNode(1);
  world.Pass(10 * kPeerTimeout);
  // Neither side has a quorum that remembers: nobody goes on, and nobody changes sides.
  REQUIRE(world.StatusOf(0).record->founding == founding);
  REQUIRE(world.StatusOf(2).record->founding == old.durable.accepted->founding);
  REQUIRE(world.StatusOf(0).foreign == engine::ClusterSet{2});
  REQUIRE(world.StatusOf(2).foreign == engine::ClusterSet{0});
  REQUIRE(world.StatusOf(2).phase != Phase::kActive);
  REQUIRE(world.StatusOf(1).phase != Phase::kActive);
}

TEST_CASE("a record from before foundings had names fits any", "[founding]") {
  World world(Script(2, 0));
  REQUIRE(Progresses(world, 0, 10));
  world.CrashNode(1, false);
  Disk older = world.node(1).disk();
  older.durable.accepted->founding = 0;
  world.node(1).PutBack(older);
  world.RestartNode(1);
  world.Pass(4 * kPeerTimeout);
  REQUIRE(Progresses(world, 1, 5));
  REQUIRE(world.StatusOf(1).record->members == engine::ClusterSet{0, 1});
}

}  // namespace
}  // namespace causeway::sim
