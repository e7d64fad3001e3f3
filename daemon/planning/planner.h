// The leader's planner: what members measured goes in, a plan for later rounds comes out, or
// nothing.
//
// Chooses the least lossy codec whose exchange hides behind computation (budget.h), the cheaper
// route and the best owners (cost_model.h). Goes to a lossier codec as soon as the present one no
// longer hides; back only after the better one would have hidden with air for several rounds, and
// more of them each time that it turned out wrong. Another route or other shares stay only if they
// were faster (trials.h). Pure: no clock, no I/O; time is counted in
// rounds. Confined to one thread. Does not: carry plans (the engine does), or measure.
#ifndef CAUSEWAY_DAEMON_PLANNING_PLANNER_H_
#define CAUSEWAY_DAEMON_PLANNING_PLANNER_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/planning/budget.h"
#include "daemon/planning/cost_model.h"
#include "daemon/planning/measurements.h"
#include "daemon/planning/plan.h"
#include "daemon/planning/trials.h"

namespace causeway::planning {

struct PlannerRules {
  std::vector<compression::CodecSpec> ladder;  // least lossy first; one rung: the codec is fixed
  bool direct = true;
  bool owner = true;
  Pace pace;                       // but the step time, which members report
  std::vector<std::string> names;  // by cluster id, for the reasons
};

// What is known after a round.
struct Situation {
  engine::RoundNumber round = 0;  // newest committed
  engine::ClusterSet members;
  uint64_t elements = 0;  // of the largest fragment
  // That all contributions to the round named; nullopt: they named several, or it is not known.
  std::optional<Plan> plan;
  std::map<engine::ClusterId, MemberReport> reports;
  std::map<compression::CodecKind, double> packed;  // as in Exchange; of the leader's own chunks
};

class Planner {
 public:
  // Rounds between two plans, unless the present one does not hide.
  static constexpr engine::RoundNumber kRoundsBetween = 2;
  // A share of the budget that a less lossy codec must leave free before it is taken.
  static constexpr double kClimbAir = 0.25;
  static constexpr int kClimbRounds = 2;
  static constexpr int kClimbRoundsMax = 64;
  // Another route or other shares must be faster by this share of the time.
  static constexpr double kRouteGain = 0.15;
  // What a guess of other lines must save: times are known better than rates.
  static constexpr double kGuessGain = 0.1;

  // `current`: the plan in force, or the configured one.
  Planner(PlannerRules rules, Plan current);

  // Nothing to choose: it never proposes.
  bool Idle() const;
  // A plan that another leader made, or this one, is in force from `round` on.
  void SetCurrent(const Plan& plan, engine::RoundNumber round);
  // Rounds after this one have not been.
  void RollBack(engine::RoundNumber round);

  // At most once a round. The plan is for the rounds after; its reason says why and from what.
  std::optional<Plan> Consider(const Situation& situation);

  // Of the last Consider: what it saw, for status and log. Empty before.
  const std::string& view() const { return view_; }

  // The lines that the members' reports amount to; nullopt: something is not measured yet, and
  // `missing` says what.
  static std::optional<Exchange> ExchangeOf(const Situation& situation,
                                            const std::vector<std::string>& names,
                                            std::string* missing);

 private:
  struct Choice {
    Plan plan;
    Cost cost;
    Budget budget;
    bool hides = false;
  };

  Plan Way(Plan plan, const Exchange& exchange) const;
  Choice Try(size_t rung, const Exchange& exchange) const;
  Choice Assess(Plan plan, const Exchange& exchange) const;
  void HardenSlowLines(size_t rung, const Exchange& exchange, Choice* choice) const;
  double Learn(const Situation& situation, Exchange* exchange);
  std::optional<Plan> GoBack(const Situation& situation, const Exchange& exchange);
  std::optional<Plan> GuessLine(const Situation& situation, const Exchange& exchange,
                                const Choice& now);
  void TakeUp(const Plan& plan, engine::RoundNumber round);
  Plan Proposed(Plan plan, const Situation& situation, const std::string& reason);
  size_t ChooseRung(const Situation& situation, const Exchange& exchange);
  bool HasAir(const Choice& choice) const;
  bool RouteIsWorthIt(const Choice& now, const Choice& better, const Situation& situation) const;
  std::string Explain(const Choice& choice, const Exchange& exchange) const;

  const PlannerRules rules_;
  Plan current_;
  engine::RoundNumber current_from_ = 0;
  engine::RoundNumber considered_ = -1;
  size_t rung_ = 0;
  double step_seconds_ = 0;
  double overhead_seconds_ = 0;
  std::deque<double> beyond_model_;  // of the newest rounds
  int rounds_with_air_ = 0;
  int climb_patience_ = kClimbRounds;
  engine::RoundNumber climbed_at_ = -1;
  Trials trials_;
  std::string view_;
};

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_PLANNER_H_
