// How long an exchange may take before trainers wait for it longer than they should. Pure; any
// thread.
#ifndef CAUSEWAY_DAEMON_PLANNING_BUDGET_H_
#define CAUSEWAY_DAEMON_PLANNING_BUDGET_H_

#include <cstdint>
#include <optional>

#include "daemon/planning/cost_model.h"

namespace causeway::planning {

// How a run's trainers go on while a fragment is exchanged.
struct Pace {
  uint32_t local_steps = 1;           // between two exchanges of a fragment
  uint32_t fragments = 1;             // exchanged one after the other in that time
  std::optional<uint32_t> delay = 0;  // steps until the result is used; 0: they wait; nullopt: auto
  double step_seconds = 0;            // one local step of the slowest trainer
};

// `delay: auto` could hide anything below a whole round, at a price in quality that grows with it:
// it is planned with this share of the local steps, at least one.
inline constexpr double kAutoDelayShare = 0.25;

// Where trainers wait for the result, or the delay is shorter than the round trips, nothing hides.
// An exchange is then called hidden while its bytes take at most this share of the time that a
// round takes without them: fewer bytes could not make it faster by more.
inline constexpr double kBlockingShare = 0.25;

struct Budget {
  double seconds = 0;       // submission to commit
  double turn_seconds = 0;  // that one fragment's bytes may hold the line; infinite: no bound
  double delay_steps = 0;   // that `seconds` stands for; 0: bytes are bounded by their share
};

Budget BudgetOf(const Pace& pace, double latency_seconds);

// `overhead_seconds`: what exchanges took beyond the model.
bool Hides(const Cost& cost, double overhead_seconds, const Budget& budget);

// The most that bytes may take for Hides to hold; may be negative.
double TransferWithin(const Budget& budget, double latency_seconds, double overhead_seconds);

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_BUDGET_H_
