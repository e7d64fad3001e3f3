// Rules that most runs use call compression/vector.h, which has a kernel for each instruction set;
// the others are loops here: at a few operations an element both run at memory speed.
#include "daemon/outer/rule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compression/vector.h"

namespace causeway::outer {
namespace {

constexpr size_t kLanes = 8;  // partial sums of a norm, added in order

// The machine's default NaN differs between processors.
inline float Canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fc00000u); }

class Schedule {
 public:
  explicit Schedule(const RuleSpec& spec)
      : first_(spec.learning_rate),
        last_(spec.final_learning_rate),
        rounds_(spec.schedule_rounds) {}

  float At(int64_t round) const {
    if (rounds_ == 0 || round <= 1) return static_cast<float>(first_);
    if (round >= static_cast<int64_t>(rounds_)) return static_cast<float>(last_);
    const double share = static_cast<double>(round - 1) / static_cast<double>(rounds_ - 1);
    const double change = (last_ - first_) * share;
    return static_cast<float>(first_ + change);
  }

 private:
  const double first_;
  const double last_;
  const uint32_t rounds_;
};

class Average final : public Rule {
 public:
  bool UsesMomentum() const override { return false; }
  bool HasOuterState() const override { return true; }
  RoundFactors Factors(int64_t, const StepHistory&) const override { return {}; }
  void Step(const Stretch& s, const RoundFactors&) const override {
    std::memcpy(s.next, s.previous, s.count * sizeof(float));
    compression::UpdateAverage({s.next, s.count}, {s.mean, s.count});
  }
};

class Sgd final : public Rule {
 public:
  explicit Sgd(const RuleSpec& spec) : eta_(spec) {}
  bool UsesMomentum() const override { return false; }
  bool HasOuterState() const override { return true; }
  RoundFactors Factors(int64_t round, const StepHistory&) const override {
    return {eta_.At(round), 1.0f};
  }
  void Step(const Stretch& s, const RoundFactors& factors) const override {
    for (size_t i = 0; i < s.count; ++i) {
      const float step = factors.eta * s.mean[i];
      s.next[i] = Canonical(s.previous[i] - step);
    }
  }

 private:
  const Schedule eta_;
};

class Nesterov final : public Rule {
 public:
  explicit Nesterov(const RuleSpec& spec) : eta_(spec), mu_(static_cast<float>(spec.momentum)) {}
  bool UsesMomentum() const override { return true; }
  bool HasOuterState() const override { return true; }
  RoundFactors Factors(int64_t round, const StepHistory&) const override {
    return {eta_.At(round), 1.0f};
  }
  void Step(const Stretch& s, const RoundFactors& factors) const override {
    std::memcpy(s.next, s.previous, s.count * sizeof(float));
    compression::UpdateNesterov({s.next, s.count}, {s.momentum, s.count}, {s.mean, s.count},
                                factors.eta, mu_);
  }

 private:
  const Schedule eta_;
  const float mu_;
};

class Co2 final : public Rule {
 public:
  explicit Co2(const RuleSpec& spec)
      : eta_(spec),
        beta_(static_cast<float>(spec.momentum)),
        phi_(spec.clip > 0 ? static_cast<float>(spec.clip)
                           : std::numeric_limits<float>::infinity()),
        penalty_(static_cast<float>(spec.penalty)),
        gap_(spec.gap_penalty),
        window_(spec.penalty_window) {}

  bool UsesMomentum() const override { return true; }
  bool HasOuterState() const override { return true; }
  bool MeasuresSteps() const override { return gap_; }

  RoundFactors Factors(int64_t round, const StepHistory& history) const override {
    RoundFactors out{eta_.At(round), penalty_};
    if (!gap_) return out;
    const bool known = history.norms > 0 && history.mean_norm > 0;
    out.penalty = known ? static_cast<float>(1.0 + history.last_norm / history.mean_norm) : 1.0f;
    return out;
  }

  void Step(const Stretch& s, const RoundFactors& factors) const override {
    for (size_t i = 0; i < s.count; ++i) {
      const float kept = beta_ * s.momentum[i];
      const float moved = kept + s.mean[i] / factors.penalty;
      const float m = Canonical(std::clamp(moved, -phi_, phi_));
      s.momentum[i] = m;
      const float step = factors.eta * m;
      s.next[i] = Canonical(s.previous[i] - step);
    }
  }

  void Remember(double norm, StepHistory* history) const override {
    // The norm of the step before is in the mean from now on.
    if (history->last_norm > 0) {
      ++history->norms;
      uint64_t weight = history->norms;
      if (window_ > 0) weight = std::min<uint64_t>(weight, window_);
      history->mean_norm += (history->last_norm - history->mean_norm) / static_cast<double>(weight);
    }
    history->last_norm = norm;
  }

 private:
  const Schedule eta_;
  const float beta_;
  const float phi_;
  const float penalty_;
  const bool gap_;
  const uint32_t window_;
};

class Gradients final : public Rule {
 public:
  bool UsesMomentum() const override { return false; }
  bool HasOuterState() const override { return false; }
  RoundFactors Factors(int64_t, const StepHistory&) const override { return {}; }
  void Step(const Stretch& s, const RoundFactors&) const override {
    std::memcpy(s.next, s.mean, s.count * sizeof(float));
  }
};

}  // namespace

std::unique_ptr<Rule> MakeRule(const RuleSpec& spec) {
  switch (spec.kind) {
    case RuleSpec::Kind::kAverage:
      return std::make_unique<Average>();
    case RuleSpec::Kind::kNesterov:
      return std::make_unique<Nesterov>(spec);
    case RuleSpec::Kind::kGradients:
      return std::make_unique<Gradients>();
    case RuleSpec::Kind::kSgd:
      return std::make_unique<Sgd>(spec);
    case RuleSpec::Kind::kCo2:
      return std::make_unique<Co2>(spec);
  }
  return nullptr;
}

double SquaredDistance(const float* previous, const float* next, size_t count) {
  double sums[kLanes] = {};
  const size_t whole = count / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double d =
          static_cast<double>(next[i + lane]) - static_cast<double>(previous[i + lane]);
      sums[lane] += d * d;
    }
  }
  for (size_t i = whole; i < count; ++i) {
    const double d = static_cast<double>(next[i]) - static_cast<double>(previous[i]);
    sums[i - whole] += d * d;
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace causeway::outer
