// Random histories: the first seeds of the simulator, every one clean and alive at its end. A
// failure prints the seed; `tests/sim/run --seed N --trace` shows its history.
#include <catch2/catch.hpp>

#include "tests/sim/sweep.h"
#include "tests/sim/world.h"

namespace causeway::sim {
namespace {

// Fewer under a sanitizer, which looks for something else.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 3000;
constexpr uint64_t kGrowingSeeds = 500;
#else
constexpr uint64_t kSeeds = 11'000;
constexpr uint64_t kGrowingSeeds = 1000;
#endif

TEST_CASE("seeded histories keep every invariant and end in progress", "[seeds]") {
  uint64_t blocked = 0;
  OracleCounts total;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    WorldOptions options;
    options.seed = seed;
    World world(options);
    const Outcome outcome = world.Run();
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    blocked += outcome.blocked;
    total.commits += outcome.counts.commits;
    total.epochs += outcome.counts.epochs;
    total.rollbacks += outcome.counts.rollbacks;
    total.cuts += outcome.counts.cuts;
  }
  // The histories are worth something only if they do something.
  CHECK(blocked < kSeeds / 5);
  CHECK(total.commits > 10 * kSeeds);
  CHECK(total.epochs > kSeeds);
  CHECK(total.rollbacks > 0);
  CHECK(total.cuts > kSeeds / 2);
}

TEST_CASE("runs grow under faults, and all of them have grown in the end", "[seeds][growth]") {
  uint64_t blocked = 0;
  OracleCounts total;
  for (uint64_t seed = 1; seed <= kGrowingSeeds; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.grows_by = 1 + static_cast<int>(seed % 2);
    World world(options);
    const Outcome outcome = world.Run();
    INFO("seed " << seed << " --grow " << options.grows_by << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    blocked += outcome.blocked;
    total.commits += outcome.counts.commits;
  }
  CHECK(blocked < kGrowingSeeds / 5);
  CHECK(total.commits > 10 * kGrowingSeeds);
}

// Histories that the seeds above do not reach.
TEST_CASE("seeds that once broke an invariant stay clean", "[seeds]") {
  struct Found {
    uint64_t seed;
    int clusters;
    std::optional<int> profile;
    int grows_by = 0;
  };
  for (const Found& found :
       {Found{3158, 3, std::nullopt}, Found{2900, 3, int{kVotersChange}},
        Found{305288, 2, int{kHostile}, 1}, Found{755, 2, int{kClocksJump}},
        Found{1363, 0, kDisksLost | kClocksJump}, Found{4038539, 4, int{kHostile}, 1}}) {
    WorldOptions options;
    options.seed = found.seed;
    options.clusters = found.clusters;
    options.profile = found.profile;
    options.grows_by = found.grows_by;
    World world(options);
    const Outcome outcome = world.Run();
    INFO(ArgumentsOf(options) << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
  }
}

TEST_CASE("a seed reproduces its run", "[seeds]") {
  for (uint64_t seed : {7u, 40u, 123u}) {
    WorldOptions options;
    options.seed = seed;
    World first(options);
    World second(options);
    const Outcome a = first.Run();
    const Outcome b = second.Run();
    REQUIRE(a.events == b.events);
    REQUIRE(a.recovery == b.recovery);
    REQUIRE(a.counts.commits == b.counts.commits);
    REQUIRE(first.oracle().records() == second.oracle().records());
  }
}

}  // namespace
}  // namespace causeway::sim
