// tests/sim/run: seeded histories of the round engine. `--seed N --trace` prints one of them.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/sim/sweep.h"
#include "tests/sim/world.h"

namespace {

#ifdef CAUSEWAY_ENGINE_FAULTS
constexpr uint64_t kFaults = static_cast<uint64_t>(causeway::engine::PlantedFault::kCount);
#endif

constexpr uint64_t kLongSeeds = 1'000'000;
constexpr uint64_t kProgressEvery = 50'000;

struct Arguments {
  uint64_t seed = 1;
  std::optional<uint64_t> seeds;
  bool sweep = false;
  int clusters = 0;
  int grows_by = 0;
  std::optional<int> profile;
  bool trace = false;
  std::optional<uint64_t> fault;  // only in the build with planted bugs
};

void Usage(FILE* to) {
  std::fputs(
      "usage: tests/sim/run [--seed N] [--seeds COUNT] [--clusters 2..64] [--grow n] [--profile "
      "P]\n"
      "                     [--long] [--trace]\n"
      "  --seed N      the first seed (1)\n"
      "  --seeds COUNT how many seeds to run, ascending (1; with --long 1000000)\n"
      "  --long        a sweep: ascending seeds go through all combinations of 2 to 8 clusters,\n"
      "                profiles and growth; a million takes about half an hour of one core\n"
      "  --clusters n  instead of a number drawn from the seed\n"
      "  --grow n      fragments that the run gets while it goes on\n"
      "  --profile P   instead of one drawn from the seed, a sum of: 1 disks are lost often,\n"
      "                2 voters change, 4 clocks jump, 8 a member lies about numbers\n"
      "  --trace       print the history\n",
      to);
}

bool Parse(int argc, char** argv, Arguments* out) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--trace") {
      out->trace = true;
      continue;
    }
    if (name == "--long") {
      out->sweep = true;
      continue;
    }
    if (i + 1 >= argc) return false;
    char* end = nullptr;
    const uint64_t value = std::strtoull(argv[++i], &end, 10);
    if (*end != '\0' || end == argv[i]) return false;
    if (name == "--seed") {
      out->seed = value;
    } else if (name == "--seeds") {
      out->seeds = value;
    } else if (name == "--clusters" && value >= 1 && value <= causeway::engine::kClustersMax) {
      out->clusters = static_cast<int>(value);
    } else if (name == "--grow" && value <= 16) {
      out->grows_by = static_cast<int>(value);
    } else if (name == "--profile" && value < causeway::sim::kProfiles) {
      out->profile = static_cast<int>(value);
#ifdef CAUSEWAY_ENGINE_FAULTS
    } else if (name == "--fault" && value < kFaults) {
      out->fault = value;
#endif
    } else {
      return false;
    }
  }
  const bool chosen = out->clusters != 0 || out->grows_by != 0 || out->profile;
  return !(out->sweep && chosen);
}

causeway::sim::WorldOptions OptionsOf(const Arguments& arguments, uint64_t seed) {
  causeway::sim::WorldOptions options;
  if (arguments.sweep) {
    options = causeway::sim::SweepOptions(seed);
  } else {
    options.seed = seed;
    options.clusters = arguments.clusters;
    options.grows_by = arguments.grows_by;
    options.profile = arguments.profile;
  }
  options.trace = arguments.trace;
#ifdef CAUSEWAY_ENGINE_FAULTS
  if (arguments.fault) options.faults.set(*arguments.fault);
#endif
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    Usage(stdout);
    return 0;
  }
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    Usage(stderr);
    return 64;
  }
  uint64_t failed = 0;
  uint64_t blocked = 0;
  uint64_t commits = 0;
  uint64_t epochs = 0;
  uint64_t rollbacks = 0;
  uint64_t cuts = 0;
  uint64_t events = 0;
  causeway::engine::Time slowest = 0;
  const uint64_t seeds = arguments.seeds.value_or(arguments.sweep ? kLongSeeds : 1);
  for (uint64_t seed = arguments.seed; seed < arguments.seed + seeds; ++seed) {
    const causeway::sim::WorldOptions options = OptionsOf(arguments, seed);
    causeway::sim::World world(options);
    const causeway::sim::Outcome outcome = world.Run();
    if (!outcome.violation.empty()) {
      ++failed;
      std::printf("%s (%d clusters): %s\n", causeway::sim::ArgumentsOf(options).c_str(),
                  world.clusters(), outcome.violation.c_str());
    }
    blocked += outcome.blocked;
    commits += outcome.counts.commits;
    epochs += outcome.counts.epochs;
    rollbacks += outcome.counts.rollbacks;
    cuts += outcome.counts.cuts;
    events += outcome.events;
    if (outcome.recovery > slowest) slowest = outcome.recovery;
    const uint64_t done = seed - arguments.seed + 1;
    if (arguments.sweep && done % kProgressEvery == 0 && done < seeds) {
      std::printf("%llu seeds, %llu failed\n", static_cast<unsigned long long>(done),
                  static_cast<unsigned long long>(failed));
      std::fflush(stdout);
    }
  }
  std::printf(
      "%llu seeds: %llu failed, %llu blocked by loss of disks; %llu commits, %llu epochs, %llu "
      "rollbacks, %llu cut rounds, %llu events; slowest recovery %.1f peer timeouts\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(blocked), static_cast<unsigned long long>(commits),
      static_cast<unsigned long long>(epochs), static_cast<unsigned long long>(rollbacks),
      static_cast<unsigned long long>(cuts), static_cast<unsigned long long>(events),
      static_cast<double>(slowest) / static_cast<double>(causeway::sim::kPeerTimeout));
  return failed == 0 ? 0 : 1;
}
