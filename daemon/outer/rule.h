// The outer rules: how a committed mean of contributions moves the global parameters.
//
// Equations (D: the round's weighted mean; theta: global parameters; u, m: outer momentum, starts
// at 0; eta: learning rate, of the round where it is scheduled):
//   average     theta <- theta - D                                             (Local SGD)
//   sgd         theta <- theta - eta D                          (SparseLoCo: the codec does the
//   rest) nesterov    u <- mu u + D;  theta <- theta - eta (D + mu u)
//               (DiLoCo; torch SGD, nesterov, dampening 0; also the committed value of `eager`)
//   co2         m <- clamp(mu m + D / L, -phi, +phi);  theta <- theta - eta m
//               (CO2; that D is one round late is the trainers' doing: local_protocol.h, Origin)
//   gradients   result = D; no outer state                      (synchronous data parallelism)
// L of co2 is a constant, or gap-aware: L = 1 + n / C, n the norm of the fragment's last step and C
// the mean of the norms before it (L = 1 until there is one). Norms are of one fragment: fragments
// commit in any order, so that nothing over all of them is the same on every cluster.
// Every elementwise operation is fp32, rounded to nearest, never fused, NaN canonical: all clusters
// get the same bytes. Scalars are fp64 in a fixed order, rounded to fp32 once.
//
// Pure functions over spans: no threads, no I/O; different spans may be stepped concurrently.
#ifndef CAUSEWAY_DAEMON_OUTER_RULE_H_
#define CAUSEWAY_DAEMON_OUTER_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace causeway::outer {

struct RuleSpec {
  enum class Kind { kAverage, kNesterov, kGradients, kSgd, kCo2 };
  Kind kind = Kind::kAverage;
  double learning_rate = 1.0;  // eta
  double momentum = 0.0;       // mu, rounded once to fp32
  // eta goes in a straight line to this over so many rounds of the fragment, then stays; 0 rounds:
  // eta is constant.
  double final_learning_rate = 1.0;
  uint32_t schedule_rounds = 0;
  // co2 only.
  double clip = 0.0;            // phi; 0: momentum is not clipped
  double penalty = 1.0;         // L, where it is constant
  bool gap_penalty = false;     // L is gap-aware
  uint32_t penalty_window = 0;  // C forgets as a mean of so many norms does; 0: it never forgets
};

// What a gap-aware rule remembers of a fragment beside its vectors. Equal on all clusters, part of
// the state's hash, and moves with the state.
struct StepHistory {
  double last_norm = 0;  // of the newest step; not in the mean yet
  double mean_norm = 0;  // C
  uint64_t norms = 0;    // that are in the mean
  friend bool operator==(const StepHistory&, const StepHistory&) = default;
};

// What one round's steps have in common, whatever the element.
struct RoundFactors {
  float eta = 1.0f;
  float penalty = 1.0f;  // L
};

// One stretch of a fragment; all pointers are to `count` elements that do not overlap.
struct Stretch {
  const float* previous = nullptr;  // theta of round r-1; unused by gradients
  const float* mean = nullptr;      // D
  float* momentum = nullptr;        // u or m, updated in place; null unless UsesMomentum()
  float* next = nullptr;            // theta of round r, or the result
  size_t count = 0;
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual bool UsesMomentum() const = 0;
  virtual bool HasOuterState() const = 0;
  // Whether the norms of its steps must be measured (StepHistory).
  virtual bool MeasuresSteps() const { return false; }
  // Of round `round` (from 1) of a fragment.
  virtual RoundFactors Factors(int64_t round, const StepHistory& history) const = 0;
  virtual void Step(const Stretch& stretch, const RoundFactors& factors) const = 0;
  // A step of this norm follows the ones of `history`.
  virtual void Remember(double, StepHistory*) const {}
};

std::unique_ptr<Rule> MakeRule(const RuleSpec& spec);

// Sum of (next - previous)^2 in fp64, in a fixed order.
double SquaredDistance(const float* previous, const float* next, size_t count);

}  // namespace causeway::outer

#endif  // CAUSEWAY_DAEMON_OUTER_RULE_H_
