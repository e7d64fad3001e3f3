// The histories that broke earlier wordings of the protocol, as scripts over whole runs. Those that
// are about one decision alone are in tests/unit/engine/decision_test.cc. The oracle checks every
// step; the scripts add what each history is about.
#include <catch2/catch.hpp>

#include "tests/sim/script.h"

namespace causeway::sim {
namespace {

template <typename T>
bool Is(const engine::Message& message) {
  return std::holds_alternative<T>(message);
}

TEST_CASE("a run is founded and makes rounds", "[histories]") {
  for (int clusters = 1; clusters <= 5; ++clusters) {
    World world(Script(clusters));
    world.Pass(kPeerTimeout);
    CAPTURE(clusters);
    for (int node = 0; node < clusters; ++node) {
      REQUIRE(world.StatusOf(node).phase == Phase::kActive);
      REQUIRE(Round(world, node) > 0);
    }
    REQUIRE(world.oracle().records().size() == 1);
  }
}

TEST_CASE("history 1: rounds of a lone primary are not undone silently", "[histories]") {
  World world(Script(2, 0));
  REQUIRE(Progresses(world, 0, 3));
  Isolate(world, 1, true);
  REQUIRE(Progresses(world, 0, 10));
  REQUIRE(world.StatusOf(0).record->members == engine::ClusterSet{0});
  world.CrashNode(0, false);
  world.RestartNode(0);
  Isolate(world, 1, false);
  REQUIRE(Progresses(world, 1, 20));
  // The primary lost what it had not checkpointed: that is a new lineage, told as such.
  REQUIRE(world.StatusOf(1).record->lineage == 1);
  REQUIRE(world.oracle().counts().rollbacks == 1);
}

TEST_CASE("history 2: a blank disk that promised is no witness below an installed epoch",
          "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 2));
  // C becomes a candidate, B promises, C hears nothing of it.
  world.loses = [](int from, int to, const engine::Message& message) {
    return (from == 1 && Is<engine::PreVote>(message)) ||
           (from == 1 && to == 2 && Is<engine::Promise>(message));
  };
  world.Freeze(0);
  world.Pass(kPeerTimeout + 60 * kTick);
  REQUIRE(world.StatusOf(1).promised.candidate == 2);
  Isolate(world, 2, true);
  world.Thaw(0);
  REQUIRE(Progresses(world, 0, 3));
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1}));
  // A loses its disk and B is cut off: C and the new A must not go on.
  Isolate(world, 1, true);
  world.CrashNode(0, true);
  world.RestartNode(0);
  world.CutLink(0, 2, false);
  world.loses = nullptr;
  const engine::RoundNumber before = Round(world, 2);
  world.Pass(20 * kPeerTimeout);
  REQUIRE(world.StatusOf(2).phase != Phase::kActive);
  REQUIRE(Round(world, 2) == before);
  // With B back all three do.
  Isolate(world, 1, false);
  REQUIRE(Progresses(world, 2, 10));
  REQUIRE(world.oracle().counts().rollbacks == 0);
}

TEST_CASE("history 5: the successor of a dead trainer is not told what its predecessor achieved",
          "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 2));
  world.loses = [](int from, int, const engine::Message& message) {
    return from == 1 && (Is<engine::Complete>(message) || Is<engine::Committed>(message) ||
                         Is<engine::Heartbeat>(message));
  };
  // A completes and waits; its trainer dies; the next one submits an operation of its own.
  for (int i = 0; i < 200; ++i) {
    if (world.StatusOf(0).fragments[0].phase == engine::RoundPhase::kComplete) break;
    world.Pass(kTick);
  }
  REQUIRE(world.StatusOf(0).fragments[0].phase == engine::RoundPhase::kComplete);
  const uint64_t excluded = world.oracle().counts().excluded;
  world.KillTrainer(0);
  world.StartTrainer(0);
  world.Pass(20 * kTick);
  world.loses = nullptr;
  REQUIRE(Progresses(world, 0, 5));
  REQUIRE(world.oracle().counts().excluded == excluded + 1);
}

TEST_CASE("history 6: a withdrawn contribution is not resubmitted blindly", "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 2));
  world.loses = [](int from, int, const engine::Message& message) {
    return Is<engine::Complete>(message) || (from == 0 && Is<engine::Cut>(message));
  };
  world.Pass(30 * kTick);
  world.KillTrainer(1);
  world.Pass(10 * kTick);
  world.StartTrainer(1);
  world.Pass(30 * kTick);
  world.loses = nullptr;
  REQUIRE(Progresses(world, 1, 5));
}

TEST_CASE("history 7: a leader that restarted at once is replaced", "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 1, 2));
  const engine::Epoch before = world.StatusOf(1).record->epoch;
  world.CrashNode(0, false);
  world.RestartNode(0);
  REQUIRE(Progresses(world, 1, 3, 6 * kPeerTimeout));
  REQUIRE(world.StatusOf(1).record->epoch > before);
}

TEST_CASE("history 8: the leader learns of a promise that fences a member", "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 2));
  world.loses = [](int from, int to, const engine::Message& message) {
    return (from == 1 && Is<engine::PreVote>(message)) ||
           (from == 1 && to == 2 && Is<engine::Promise>(message));
  };
  world.Freeze(0);
  world.Pass(kPeerTimeout + 60 * kTick);
  REQUIRE(world.StatusOf(1).promised.candidate == 2);
  Isolate(world, 2, true);
  world.Thaw(0);
  world.loses = nullptr;
  REQUIRE(Progresses(world, 1, 3, 6 * kPeerTimeout));
}

TEST_CASE("history 10: a round from which all have withdrawn moves on", "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 2));
  world.KillTrainer(0);
  world.KillTrainer(1);
  world.Pass(3 * kPeerTimeout);
  world.StartTrainer(1);
  REQUIRE(Progresses(world, 1, 4, 6 * kPeerTimeout));
}

TEST_CASE("two clusters without a primary wait for each other and resume in their epoch",
          "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 3));
  const engine::Epoch before = world.StatusOf(0).record->epoch;
  Isolate(world, 1, true);
  world.Pass(10 * kPeerTimeout);
  REQUIRE(world.StatusOf(0).phase == Phase::kStalled);
  REQUIRE(world.StatusOf(0).awaited == engine::ClusterSet{1});
  Isolate(world, 1, false);
  REQUIRE(Progresses(world, 0, 3, 2 * kPeerTimeout));
  REQUIRE(world.StatusOf(0).record->epoch == before);
}

TEST_CASE("a killed gateway of two comes back and the run goes on", "[histories]") {
  for (int primary : {-1, 0}) {
    for (int victim : {0, 1}) {
      CAPTURE(primary, victim);
      World world(Script(2, primary));
      REQUIRE(Progresses(world, 0, 3));
      world.CrashNode(victim, false);
      world.Pass(2 * kPeerTimeout);
      const int survivor = 1 - victim;
      const bool goes_on = primary == survivor;
      REQUIRE((world.StatusOf(survivor).phase == Phase::kActive) == goes_on);
      world.RestartNode(victim);
      REQUIRE(Progresses(world, survivor, 4, 8 * kPeerTimeout));
      world.Pass(4 * kPeerTimeout);
      REQUIRE(world.StatusOf(victim).phase == Phase::kActive);
      REQUIRE(world.StatusOf(victim).record->members == (engine::ClusterSet{0, 1}));
    }
  }
}

TEST_CASE("a wiped gateway does not seed a live run but catches up", "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 5));
  world.CrashNode(0, true);
  world.RestartNode(0);
  REQUIRE(Progresses(world, 1, 5, 8 * kPeerTimeout));
  REQUIRE(world.StatusOf(0).fragments[0].committed.round >= Round(world, 1) - 1);
  REQUIRE(world.oracle().counts().rollbacks == 0);
}

TEST_CASE("a frozen peer finds its epoch fenced and is taken back", "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  world.Freeze(2);
  REQUIRE(Progresses(world, 0, 5, 6 * kPeerTimeout));
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1}));
  world.Thaw(2);
  world.Pass(6 * kPeerTimeout);
  REQUIRE(world.StatusOf(2).phase == Phase::kActive);
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1, 2}));
}

TEST_CASE("two members that do not hear each other do not stop the third", "[histories]") {
  World world(Script(3));
  REQUIRE(Progresses(world, 0, 3));
  world.CutLink(1, 2, true);
  REQUIRE(Progresses(world, 0, 10, 8 * kPeerTimeout));
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1}));
  world.CutLink(1, 2, false);
  world.Pass(8 * kPeerTimeout);
  REQUIRE(world.StatusOf(0).record->members == (engine::ClusterSet{0, 1, 2}));
}

TEST_CASE("a trainer that dies is excluded and the others go on", "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 3));
  world.KillTrainer(1);
  REQUIRE(Progresses(world, 0, 5, 2 * kPeerTimeout));
  world.StartTrainer(1);
  const uint64_t cuts = world.oracle().counts().cuts;
  REQUIRE(cuts > 0);
  REQUIRE(Progresses(world, 0, 5, 2 * kPeerTimeout));
}

TEST_CASE("detection of a silent peer stays within the peer timeout and a heartbeat",
          "[histories]") {
  World world(Script(2));
  REQUIRE(Progresses(world, 0, 3));
  Isolate(world, 1, true);
  const Time cut_at = world.now();
  while (world.StatusOf(0).phase == Phase::kActive) {
    world.Pass(kTick);
    REQUIRE(world.now() - cut_at <= kPeerTimeout + 5 * kTick);
  }
}

}  // namespace
}  // namespace causeway::sim
