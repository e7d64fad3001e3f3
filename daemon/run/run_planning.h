// A run's plans on this gateway: those that are known, what this cluster measures and tells the
// leader, and, where this cluster leads, the planner.
//
// Confined to the loop's thread; takes the time from its caller. Does not: carry messages (the Run
// sends what this hands out), decide (daemon/planning does), or measure links (the transport does).
#ifndef CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_
#define CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/config.h"
#include "daemon/engine/action.h"
#include "daemon/engine/event.h"
#include "daemon/engine/message.h"
#include "daemon/engine/record.h"
#include "daemon/planning/measurements.h"
#include "daemon/planning/plan.h"
#include "daemon/planning/planner.h"
#include "daemon/run/plan_codec.h"
#include "daemon/run/roster.h"
#include "daemon/transport/rates.h"

namespace causeway::run {

class RunPlanning {
 public:
  // Both are borrowed and outlive it.
  RunPlanning(const config::Run& config, const Roster& roster);

  // What contributions may name; plan 0 is the configured one.
  const planning::PlanBook& book() const { return book_; }
  // What a run's buffers must be able to hold: the codecs that a plan may name, least lossy first.
  const std::vector<compression::CodecSpec>& codecs() const { return bounds_.codecs; }

  // A plan that a peer sent: an error names what is wrong; the message must not reach the engine.
  absl::Status Check(const engine::Plan& plan) const;
  // The engine knows a checked plan from now on. True: it is the newest.
  bool OnPlanKnown(const engine::PlanKnown& known);
  // The newest one known; the configured one at first.
  const planning::Plan& newest() const { return *book_.Find(newest_id_); }
  engine::RoundNumber newest_from() const { return newest_from_; }
  // What the planner saw last, where this cluster leads.
  const std::string& view() const { return planner_->view(); }

  // ---- measured here
  // A trainer's rank applied a result; microseconds that it computed since the one before.
  void OnApplied(uint32_t rank, uint32_t computing_us);
  // Ranks and their pace are new.
  void OnTrainerGone() { computing_.clear(); }
  // A round of some fragment was committed, so long after this cluster's submission; 0: it had none
  // in it.
  void OnCommitted(const engine::CommitRecord& record, double exchange_seconds);
  // Rounds after this one have not been: what was measured in them counts no more.
  void OnRolledBack(engine::RoundNumber round);
  planning::MemberReport Measure(const std::vector<transport::PeerRates>& rates) const;
  // Bytes per second at which one encoded chunk leaves: to every peer at once, or to its owner
  // while others go to theirs. 0: not measured.
  double ChunkRate(const std::vector<transport::PeerRates>& rates) const;
  // Something is new since the last report (or nothing was told for a while) and there is somebody
  // to choose for.
  bool ReportDue(int64_t now_us) const;
  void Reported(int64_t now_us);

  // ---- where this cluster leads
  void TakeReport(engine::ClusterId from, planning::MemberReport report);
  // A plan that the engine is to propose, or nothing. `elements`: of the largest fragment.
  // `packed`: what the lossless stage wins here.
  std::optional<engine::ProposePlan> Propose(
      const engine::ClusterSet& members, uint64_t elements,
      const std::map<compression::CodecKind, double>& packed);

  // After the run was forgotten: as at the start.
  void Reset();

 private:
  std::optional<planning::Plan> PlanOf(const engine::CommitRecord& record) const;
  bool EverybodyTold(const engine::ClusterSet& members) const;

  const config::Run& config_;
  const Roster& roster_;
  const planning::Plan configured_;
  const PlanBounds bounds_;
  planning::PlanBook book_;
  engine::PlanId newest_id_ = 0;
  engine::RoundNumber newest_from_ = 0;
  std::unique_ptr<planning::Planner> planner_;

  // Seconds from one result to the next, by rank; the newest few.
  std::map<uint32_t, std::deque<double>> computing_;
  engine::RoundNumber round_ = 0;      // newest committed, of any fragment
  double exchange_seconds_ = 0;        // its
  std::optional<planning::Plan> ran_;  // that all of its contributions named
  bool told_ = true;
  int64_t told_us_ = 0;
  std::map<engine::ClusterId, planning::MemberReport> reports_;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_RUN_PLANNING_H_
