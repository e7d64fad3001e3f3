// A run's plans: which are known here, and what the leader makes of everybody's measurements.
//
// Confined to the loop's thread. Does not: carry messages (the Run sends what this hands out) or
// decide by itself (daemon/planning does).
#ifndef CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_
#define CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/engine/message.h"
#include "daemon/planning/plan.h"
#include "daemon/run/plan_codec.h"
#include "daemon/run/roster.h"

namespace causeway::run {

class RunPlanning {
 public:
  // Both are borrowed and outlive it.
  RunPlanning(const config::Run& config, const Roster& roster);

  // What contributions may name; plan 0 is the configured one.
  const planning::PlanBook& book() const { return book_; }

  // A plan that a peer sent: an error names what is wrong; the message must not reach the engine.
  absl::Status Check(const engine::Plan& plan) const;
  // The engine knows a checked plan from now on.
  void OnPlanKnown(const engine::Plan& plan);

  // After the run was forgotten: as at the start.
  void Reset();

 private:
  const Roster& roster_;
  const planning::Plan configured_;
  const PlanBounds bounds_;
  planning::PlanBook book_;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_
