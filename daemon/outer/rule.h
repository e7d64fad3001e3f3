// The outer rules: how a committed mean of contributions moves the global parameters.
//
// Equations (D: the round's weighted mean; theta: global parameters; u: outer momentum, starts at
// 0):
//   average    theta <- theta - D                                   (Local SGD)
//   nesterov   u <- mu u + D;  theta <- theta - eta (D + mu u)      (DiLoCo; torch SGD, nesterov,
//   dampening 0) gradients  result = D; no outer state                           (synchronous data
//   parallelism)
// Every operation is fp32, rounded to nearest, never fused: all clusters get the same bytes.
//
// Pure functions over spans: no threads, no I/O; different spans may be stepped concurrently.
#ifndef CAUSEWAY_DAEMON_OUTER_RULE_H_
#define CAUSEWAY_DAEMON_OUTER_RULE_H_

#include <cstddef>
#include <memory>
#include <string>

namespace causeway::outer {

struct RuleSpec {
  enum class Kind { kAverage, kNesterov, kGradients };
  Kind kind = Kind::kAverage;
  double learning_rate = 1.0;  // eta, rounded once to fp32
  double momentum = 0.0;       // mu, rounded once to fp32
};

// One stretch of a fragment; all pointers are to `count` elements and may be the same only where
// said.
struct Stretch {
  const float* previous = nullptr;  // theta of round r-1; unused by gradients
  const float* mean = nullptr;      // D
  float* momentum = nullptr;        // u, updated in place; null unless UsesMomentum()
  float* next = nullptr;            // theta of round r, or the result
  size_t count = 0;
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual bool UsesMomentum() const = 0;
  virtual bool HasOuterState() const = 0;
  virtual void Step(const Stretch& stretch) const = 0;
};

std::unique_ptr<Rule> MakeRule(const RuleSpec& spec);

}  // namespace causeway::outer

#endif  // CAUSEWAY_DAEMON_OUTER_RULE_H_
