// See budget.h.
#include "daemon/planning/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace causeway::planning {

Budget BudgetOf(const Pace& pace, double latency_seconds) {
  const double turn = pace.step_seconds * pace.local_steps / std::max(1u, pace.fragments);
  const double steps =
      pace.delay ? *pace.delay : std::max(1.0, std::floor(pace.local_steps * kAutoDelayShare));
  const double hidden = steps * pace.step_seconds;
  if (hidden <= latency_seconds) {
    return {latency_seconds + kBlockingShare * (turn + latency_seconds),
            std::numeric_limits<double>::infinity(), 0};
  }
  return {hidden, turn, steps};
}

double TransferWithin(const Budget& budget, double latency_seconds, double overhead_seconds) {
  if (budget.delay_steps == 0) return budget.seconds - latency_seconds;  // see kBlockingShare
  return std::min(budget.seconds - latency_seconds - overhead_seconds, budget.turn_seconds);
}

bool Hides(const Cost& cost, double overhead_seconds, const Budget& budget) {
  return cost.transfer_seconds <= TransferWithin(budget, cost.latency_seconds, overhead_seconds);
}

}  // namespace causeway::planning
