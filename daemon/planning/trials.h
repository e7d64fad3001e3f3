// Other routes and shares tried in rounds that count: a plan that a model proposes stays only if a
// round under it was faster than those before, by half of what was expected.
//
// Also guesses what no measurement shows: a line whose peers' lines never let it be used looks as
// slow as theirs. A guess takes all lines to be alike, or one to carry twice what was seen, and
// gives shares to match; where that is true the round is faster. Guesses are made one by one until
// none is left, then again after a pause that grows, or when rounds have become slower. Pure: time
// is counted in rounds. Confined to one thread. Does not: make plans for measured lines
// (planner.h), or measure.
#ifndef CAUSEWAY_DAEMON_PLANNING_TRIALS_H_
#define CAUSEWAY_DAEMON_PLANNING_TRIALS_H_

#include <deque>
#include <optional>

#include "daemon/engine/ids.h"
#include "daemon/planning/cost_model.h"
#include "daemon/planning/plan.h"

namespace causeway::planning {

// The same route and shares; codecs may differ.
bool SameWay(const Plan& a, const Plan& b);
// Also the same codecs: rounds under them take the same time.
bool SameWork(const Plan& a, const Plan& b);

class Trials {
 public:
  // A plan that did not run in so many rounds is given up.
  static constexpr engine::RoundNumber kPatience = 8;
  // Rounds under a plan until it is judged, unless the first is clearly slower.
  static constexpr int kRounds = 2;
  // Rounds under one plan before a guess, whose middle one is what it has to beat.
  static constexpr size_t kRoundsKnown = 3;
  // What a guess takes a line to carry, of what it was seen to.
  static constexpr double kGuess = 2;
  // Rounds until failed ways are tried again, doubled up to the most each time.
  static constexpr engine::RoundNumber kPause = 32;
  static constexpr engine::RoundNumber kPauseMax = 512;
  // Rounds that are so much slower than when a trial failed: the lines are others.
  static constexpr double kOtherLines = 1.5;

  enum class Verdict { kNone, kWaits, kStays, kFailed };

  // After each round. `ran`: the plan of all its contributions, null where they had several;
  // `seconds`: of the exchange, 0 where not all members told. kFailed: go back to before().
  Verdict OnRound(engine::RoundNumber round, const Plan& current, const Plan* ran, double seconds);

  const Plan& before() const { return trial_->before; }
  double before_seconds() const { return trial_->before_seconds; }
  // Another leader's plan, or a change that is no trial: what was timed is void.
  void Forget();

  // The model's way is taken up, which expects to save that share of the time. Where nothing was
  // timed before, it stays untested.
  void Propose(engine::RoundNumber round, const Plan& before, double gain);
  // A measured way failed, and the lines still look as they did then.
  bool held(engine::RoundNumber round) const;

  // A plan that suits other lines than those seen, if there is one that would save `gain_min` and
  // it is time for it. It runs as a trial.
  struct Guessed {
    Plan plan;
    std::optional<engine::ClusterId> whose;  // line carries more; nullopt: all are alike
  };
  std::optional<Guessed> Guess(engine::RoundNumber round, const Plan& current,
                               const Exchange& exchange, bool direct_allowed,
                               double overhead_seconds, double gain_min);

 private:
  struct Trial {
    Plan before;
    double before_seconds = 0;
    double limit_seconds = 0;  // to be undercut
    double worst_seconds = 0;  // that no second round would mend
    int rounds = 0;            // that ran
    engine::RoundNumber since = 0;
    bool guess = false;
    std::optional<engine::ClusterId> whose;
  };
  struct Guesses {  // that were wrong, since the newest right one
    bool alike = false;
    engine::ClusterSet wide;
    bool any() const { return alike || !wide.Empty(); }
  };

  void Begin(const Plan& before, double seconds, double gain, engine::RoundNumber round);
  void Fail(engine::RoundNumber round);

  std::deque<double> known_;  // of the newest rounds under the current plan
  std::optional<Trial> trial_;
  // Of ways that the model proposed.
  engine::RoundNumber hold_until_ = 0;
  engine::RoundNumber hold_ = kPause / 2;
  double held_seconds_ = 0;
  // Of guesses.
  Guesses wrong_;
  engine::RoundNumber guess_at_ = 0;
  double settled_seconds_ = 0;  // of rounds when none was left
  engine::RoundNumber pause_ = kPause;
};

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_TRIALS_H_
