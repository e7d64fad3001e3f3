// Scripted: what a trainer is told while its gateway cannot know yet.
#include <catch2/catch.hpp>
#include <optional>

#include "tests/sim/script.h"

namespace causeway::sim {
namespace {

template <typename T>
bool Is(const engine::Message& message) {
  return std::holds_alternative<T>(message);
}

engine::RoundNumber Saved(World& world, int node) {
  const auto& saved = world.node(node).disk().checkpoints;
  return saved.count(0) > 0 ? saved.at(0).state.round : -1;
}

// B and C roll back what A holds; B contributes to the next round, C completes it, and B loses its
// disk. What B then takes over from A is of the lineage that ended, in which that round was decided
// without B's new operation: the one that this returns, unless the history turned out otherwise.
std::optional<engine::OpId> WipedInDoubt(World& world) {
  REQUIRE(Progresses(world, 0, 12));
  Isolate(world, 0, true);
  world.CrashNode(1, false);
  world.CrashNode(2, false);
  const engine::RoundNumber base = Saved(world, 1);
  if (base < 0 || base != Saved(world, 2) || Round(world, 0) <= base) return std::nullopt;
  world.loses = [](int from, int, const engine::Message& message) {
    return Is<engine::Complete>(message) || (from == 0 && Is<engine::PreVote>(message));
  };
  world.KillTrainer(1);  // its successor stands on the value from before the rollback
  world.RestartNode(1);
  world.StartTrainer(1);
  world.Pass(kPeerTimeout / 2);
  world.RestartNode(2);
  world.Pass(4 * kPeerTimeout);
  const auto& op = world.node(1).trainer().fragments[0].op;
  const bool in_doubt = world.StatusOf(2).record->lineage == 1 && op &&
                        world.StatusOf(2).fragments[0].phase == engine::RoundPhase::kComplete;
  if (!in_doubt || Round(world, 2) != base || op->base.round != base) return std::nullopt;
  const engine::OpId sent = op->op;
  Isolate(world, 2, true);
  world.CrashNode(1, true);
  world.CutLink(0, 1, false);
  world.RestartNode(1);
  world.Pass(4 * kPeerTimeout);
  REQUIRE(Round(world, 1) > base);  // it holds what A holds
  return sent;
}

void MeetAgain(World& world) {
  world.loses = nullptr;
  Isolate(world, 2, false);
  const bool progresses = Progresses(world, 2, 10);
  REQUIRE(progresses);
  world.Pass(2 * kPeerTimeout);
}

constexpr uint64_t kSeeds = 60;

TEST_CASE("history 12: a wiped gateway gives no answer from a lineage that ended", "[doubt]") {
  int tried = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    WorldOptions options = Script(3);
    options.seed = seed;
    World world(options);
    const std::optional<engine::OpId> sent = WipedInDoubt(world);
    if (!sent) continue;
    ++tried;
    const auto& op = world.node(1).trainer().fragments[0].op;
    REQUIRE(op);
    REQUIRE(op->op == *sent);
    MeetAgain(world);
    REQUIRE(world.StatusOf(1).phase == Phase::kActive);
    REQUIRE((!op || op->op != *sent));
    REQUIRE(world.StatusOf(0).record->lineage == 1);
  }
  REQUIRE(tried > 0);
}

#ifdef CAUSEWAY_ENGINE_FAULTS
// Random histories reach this too rarely.
TEST_CASE("a planted answer before the lineage is known is found", "[planted]") {
  int found = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldOptions options = Script(3);
    options.seed = seed;
    options.faults.set(static_cast<size_t>(engine::PlantedFault::kAnswersEarly));
    World world(options);
    try {
      if (WipedInDoubt(world)) MeetAgain(world);
    } catch (const Violation& violation) {
      CHECK_THAT(violation.what(), Catch::StartsWith("GUESS"));
      ++found;
    }
  }
  CHECK(found > 0);
}
#endif

}  // namespace
}  // namespace causeway::sim
