// Random histories of every cluster count and profile, runs that grow among them: what a sweep of
// `tests/sim/run --long` begins with. Other seeds than those of seeds_test.cc.
#include "tests/sim/sweep.h"

#include <catch2/catch.hpp>

namespace causeway::sim {
namespace {

// Under a sanitizer, which looks for something else, each combination once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kPeriods = 1;
#else
constexpr uint64_t kPeriods = 12;
#endif
constexpr uint64_t kSeeds = kPeriods * kSweepPeriod;
constexpr uint64_t kFirst = 100'000;

TEST_CASE("histories of every kind keep every invariant and end in progress", "[sweep]") {
  uint64_t blocked = 0;
  OracleCounts total;
  for (uint64_t seed = kFirst; seed < kFirst + kSeeds; ++seed) {
    const WorldOptions options = SweepOptions(seed);
    World world(options);
    const Outcome outcome = world.Run();
    INFO(ArgumentsOf(options) << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    blocked += outcome.blocked;
    total.commits += outcome.counts.commits;
    total.epochs += outcome.counts.epochs;
    total.rollbacks += outcome.counts.rollbacks;
    total.cuts += outcome.counts.cuts;
  }
  CHECK(blocked < kSeeds / 4);
  CHECK(total.commits > 10 * kSeeds);
  CHECK(total.epochs > kSeeds);
  CHECK(total.rollbacks > 0);
  CHECK(total.cuts > kSeeds / 2);
}

}  // namespace
}  // namespace causeway::sim
