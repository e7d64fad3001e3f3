// A test of the tests: each bug planted in the engine has to be found by the simulator (one by a
// history of doubt_test.cc).
#include <catch2/catch.hpp>

#include "tests/sim/world.h"

namespace causeway::sim {
namespace {

constexpr uint64_t kSeedsMax = 10'000;

struct Plant {
  engine::PlantedFault fault;
  const char* name;
};

const Plant kPlants[] = {
    {engine::PlantedFault::kSkipFence, "a fenced member goes on"},
    {engine::PlantedFault::kCountDuplicate, "a contribution is not bound to its operation"},
    {engine::PlantedFault::kCommitWithoutQuorum, "an epoch without a quorum"},
    {engine::PlantedFault::kNoPromisePhase, "survivors decide without promises"},
    {engine::PlantedFault::kAmnesiacSurvives, "a restarted member counts as a survivor"},
    {engine::PlantedFault::kCutAfterComplete, "a cut after the leader's COMPLETE"},
    {engine::PlantedFault::kWithdrawLate, "a withdrawal after COMPLETE"},
    {engine::PlantedFault::kIgnorePromise, "a record below the promise is accepted"},
    {engine::PlantedFault::kResidualOnExclude, "the residual moves on exclusion"},
    {engine::PlantedFault::kNoIncarnations, "a restarted member is taken for the old one"},
    {engine::PlantedFault::kStaleResidual, "a residual of another round is kept"},
    {engine::PlantedFault::kOverwriteBase, "the value that a trainer stands on is overwritten"},
};

TEST_CASE("every planted bug is found", "[planted]") {
  for (const Plant& plant : kPlants) {
    uint64_t seed = 1;
    std::string violation;
    for (; seed <= kSeedsMax && violation.empty(); ++seed) {
      WorldOptions options;
      options.seed = seed;
      options.faults.set(static_cast<size_t>(plant.fault));
      World world(options);
      violation = world.Run().violation;
    }
    INFO(plant.name << ": " << (violation.empty() ? "not found" : violation) << " at seed "
                    << seed - 1);
    CHECK(!violation.empty());
  }
}

}  // namespace
}  // namespace causeway::sim
