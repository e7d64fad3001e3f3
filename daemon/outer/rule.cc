// The arithmetic itself is compression/vector.h, one set of bytes for every instruction set.
#include "daemon/outer/rule.h"

#include <cstring>

#include "compression/vector.h"

namespace causeway::outer {
namespace {

class Average final : public Rule {
 public:
  bool UsesMomentum() const override { return false; }
  bool HasOuterState() const override { return true; }
  void Step(const Stretch& s) const override {
    std::memcpy(s.next, s.previous, s.count * sizeof(float));
    compression::UpdateAverage({s.next, s.count}, {s.mean, s.count});
  }
};

class Nesterov final : public Rule {
 public:
  Nesterov(double learning_rate, double momentum)
      : eta_(static_cast<float>(learning_rate)), mu_(static_cast<float>(momentum)) {}
  bool UsesMomentum() const override { return true; }
  bool HasOuterState() const override { return true; }
  void Step(const Stretch& s) const override {
    std::memcpy(s.next, s.previous, s.count * sizeof(float));
    compression::UpdateNesterov({s.next, s.count}, {s.momentum, s.count}, {s.mean, s.count}, eta_,
                                mu_);
  }

 private:
  const float eta_;
  const float mu_;
};

class Gradients final : public Rule {
 public:
  bool UsesMomentum() const override { return false; }
  bool HasOuterState() const override { return false; }
  void Step(const Stretch& s) const override {
    std::memcpy(s.next, s.mean, s.count * sizeof(float));
  }
};

}  // namespace

std::unique_ptr<Rule> MakeRule(const RuleSpec& spec) {
  switch (spec.kind) {
    case RuleSpec::Kind::kAverage:
      return std::make_unique<Average>();
    case RuleSpec::Kind::kNesterov:
      return std::make_unique<Nesterov>(spec.learning_rate, spec.momentum);
    case RuleSpec::Kind::kGradients:
      return std::make_unique<Gradients>();
  }
  return nullptr;
}

}  // namespace causeway::outer
