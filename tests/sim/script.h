// Words for scripted histories.
#ifndef CAUSEWAY_TESTS_SIM_SCRIPT_H_
#define CAUSEWAY_TESTS_SIM_SCRIPT_H_

#include "tests/sim/world.h"

namespace causeway::sim {

using engine::Phase;

inline WorldOptions Script(int clusters, int primary = -1) {
  WorldOptions options;
  options.seed = 20;
  options.clusters = clusters;
  options.fragments = 1;
  options.scripted = true;
  options.primary = primary;
  return options;
}

inline engine::RoundNumber Round(World& world, int node) {
  return world.StatusOf(node).fragments[0].committed.round;
}

// Passes time until `node` has made `rounds` more rounds; false: it did not within `patience`.
inline bool Progresses(World& world, int node, int rounds, Time patience = 20 * kPeerTimeout) {
  const engine::RoundNumber target = Round(world, node) + rounds;
  for (Time spent = 0; spent < patience; spent += 5 * kTick) {
    world.Pass(5 * kTick);
    if (world.node(node).up() && Round(world, node) >= target) return true;
  }
  return false;
}

inline void Isolate(World& world, int node, bool cut) {
  for (int other = 0; other < world.clusters(); ++other) {
    if (other != node) world.CutLink(node, other, cut);
  }
}

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_SCRIPT_H_
