// Which kind of history a seed is in a sweep: ascending seeds go through all cluster counts, all
// profiles, and runs that grow or do not. A number drawn from the seed would meet the rare kinds
// rarely.
#ifndef CAUSEWAY_TESTS_SIM_SWEEP_H_
#define CAUSEWAY_TESTS_SIM_SWEEP_H_

#include <string>

#include "tests/sim/world.h"

namespace causeway::sim {

// Every combination comes once in so many seeds.
inline constexpr uint64_t kSweepPeriod = 16 * kProfiles * 3;

inline WorldOptions SweepOptions(uint64_t seed) {
  // Larger runs take longer, so there are fewer of them.
  constexpr int kClusters[16] = {3, 2, 4, 3, 2, 5, 3, 4, 2, 3, 6, 4, 3, 2, 5, 8};
  WorldOptions options;
  options.seed = seed;
  options.clusters = kClusters[seed % 16];
  options.profile = static_cast<int>(seed / 16 % kProfiles);
  options.grows_by = static_cast<int>(seed / 16 / kProfiles % 3);
  return options;
}

// What repeats a history: arguments of tests/sim/run.
inline std::string ArgumentsOf(const WorldOptions& options) {
  std::string out = "--seed " + std::to_string(options.seed);
  if (options.clusters != 0) out += " --clusters " + std::to_string(options.clusters);
  if (options.profile) out += " --profile " + std::to_string(*options.profile);
  if (options.grows_by != 0) out += " --grow " + std::to_string(options.grows_by);
  return out;
}

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_SWEEP_H_
