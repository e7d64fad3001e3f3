// Rounds of 2 to 64 clusters in simulated time: the real engine in each, over lines with a rate and
// a round trip, and a data plane that moves sizes. No faults: how long a round takes and how many
// messages it needs, directly and by owner.
//
// Deterministic. Lines carry pieces one after the other in the order in which they come, out of the
// sender, across half a round trip, into the receiver.
#ifndef CAUSEWAY_TESTS_SIM_SCALE_H_
#define CAUSEWAY_TESTS_SIM_SCALE_H_

#include <cstdint>

#include "daemon/planning/cost_model.h"

namespace causeway::sim {

struct ScaleOptions {
  planning::Plan plan;           // of every round from the third on; direct before
  planning::Exchange exchange;   // lines, round trip, size
  double compute_seconds = 0.5;  // between a commit and the next submission
  int rounds = 4;                // measured, with the plan
};

struct ScaleResult {
  double round_seconds = 0;            // submission to the last member's commit; the slowest round
  double first_seconds = 0;            // from starting the gateways until the run is founded
  double control_messages = 0;         // sent by a member in a round, heartbeats left out
  double control_messages_leader = 0;  // likewise, by the one that leads
  double heartbeats_per_second = 0;    // sent by a member
  bool plan_named = false;             // every contribution by owner named the plan
};

// Aborts (Catch or not) with a message on stderr when the engines do not get there.
ScaleResult RunScale(const ScaleOptions& options);

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_SCALE_H_
