// Numbers are printed so that they read back to the same double.
#include "daemon/run/algorithm.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/digest/digest.h"

namespace causeway::run {
namespace {

constexpr size_t kLineShownMax = 80;
constexpr uint64_t kStepUnits = 1'000'000'000;
constexpr int kWeightBitsFree = 6;  // the weights of 64 clusters can be added

struct Line {
  std::string key;
  std::string value;
};

Line Split(const std::string& line) {
  const size_t at = line.find(" = ");
  if (at == std::string::npos) return {line, ""};
  return {line.substr(0, at), line.substr(at + 3)};
}

std::string Clean(const std::string& text) {
  std::string out = text.substr(0, kLineShownMax);
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

std::string Number(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

bool HasOuterRule(const config::Run& run) {
  return run.algorithm.rule != config::Rule::kGradientAverage;
}

outer::RuleSpec RuleOf(const config::Algorithm& algorithm) {
  using Kind = outer::RuleSpec::Kind;
  outer::RuleSpec out;
  out.learning_rate = algorithm.learning_rate;
  out.momentum = algorithm.momentum;
  out.final_learning_rate = algorithm.final_learning_rate;
  out.schedule_rounds = algorithm.schedule_rounds;
  out.clip = algorithm.clip;
  out.penalty = algorithm.penalty;
  out.gap_penalty = algorithm.gap_penalty;
  out.penalty_window = algorithm.penalty_window;
  switch (algorithm.rule) {
    case config::Rule::kAverage:
      out.kind = Kind::kAverage;
      break;
    case config::Rule::kNesterov:
    case config::Rule::kEager:  // the committed value; what trainers get early is the endpoint's
      out.kind = Kind::kNesterov;
      break;
    case config::Rule::kSparseLoco:
      out.kind = Kind::kSgd;
      break;
    case config::Rule::kCo2:
      out.kind = Kind::kCo2;
      break;
    case config::Rule::kGradientAverage:
      out.kind = Kind::kGradients;
      break;
  }
  return out;
}

endpoint::Correction CorrectionOf(const config::Run& run) {
  if (HasOuterRule(run)) return {};
  const double share = std::sqrt(static_cast<double>(run.clusters.size()));
  return {run.algorithm.momentum, run.algorithm.clip / share};
}

uint64_t CountedWeight(const config::Algorithm& algorithm, uint64_t weight) {
  if (!algorithm.normalise_steps || algorithm.steps_of.empty()) return weight;
  uint64_t common = 1;
  for (uint32_t steps : algorithm.steps_of) {
    common = std::lcm(common, uint64_t{steps});
    if (common > kStepUnits) break;  // the ratio is rounded then
  }
  const uint64_t units = std::min(common, kStepUnits) / algorithm.local_steps;
  const uint64_t factor = std::max<uint64_t>(units, 1);
  const uint64_t most = std::numeric_limits<uint64_t>::max() >> kWeightBitsFree;
  return weight > most / factor ? most : weight * factor;
}

compression::CodecSpec CodecOf(const config::Codec& codec) {
  absl::StatusOr<compression::CodecSpec> spec = compression::CodecSpec::Parse(codec.kind);
  assert(spec.ok());
  if (codec.error_feedback) spec->error_feedback = true;
  return *spec;
}

std::vector<compression::CodecSpec> LadderOf(const config::Codec& codec) {
  if (codec.ladder.empty()) return {CodecOf(codec)};
  std::vector<compression::CodecSpec> ladder;
  for (const std::string& rung : codec.ladder) {
    ladder.push_back(compression::CodecSpec::Parse(rung).value());
  }
  return ladder;
}

std::string CodecText(const config::Codec& codec) {
  if (codec.ladder.empty()) return CodecOf(codec).ToString();
  return absl::StrCat("auto from ", codec.ladder.front(), " to ", codec.ladder.back());
}

const char* RouteName(config::Route route) {
  switch (route) {
    case config::Route::kAuto:
      return "auto";
    case config::Route::kDirect:
      return "direct";
    case config::Route::kOwner:
      return "owner";
  }
  return "unknown";
}

std::vector<std::string> AlgorithmLines(const config::Run& run) {
  const config::Algorithm& a = run.algorithm;
  std::vector<std::string> out;
  out.push_back(absl::StrCat("clusters = ", absl::StrJoin(run.clusters, ",")));
  out.push_back(absl::StrCat("seed = ", run.seed));
  out.push_back(absl::StrCat("primary = ", run.primary));
  out.push_back(absl::StrCat("algorithm.rule = ", config::RuleName(a.rule)));
  out.push_back(absl::StrCat("algorithm.learning_rate = ", Number(a.learning_rate)));
  out.push_back(absl::StrCat("algorithm.momentum = ", Number(a.momentum)));
  out.push_back(absl::StrCat("algorithm.final_learning_rate = ", Number(a.final_learning_rate)));
  out.push_back(absl::StrCat("algorithm.schedule_rounds = ", a.schedule_rounds));
  out.push_back(absl::StrCat("algorithm.clip = ", Number(a.clip)));
  out.push_back(absl::StrCat("algorithm.penalty = ", a.gap_penalty ? "gap" : Number(a.penalty)));
  out.push_back(absl::StrCat("algorithm.penalty_window = ", a.penalty_window));
  out.push_back(absl::StrCat("algorithm.local_steps = ", a.steps_of.empty()
                                                             ? absl::StrCat(a.local_steps)
                                                             : absl::StrJoin(a.steps_of, ",")));
  out.push_back(absl::StrCat("algorithm.normalise = ", a.normalise_steps ? "steps" : "none"));
  out.push_back(absl::StrCat("algorithm.fragments = ", a.fragments));
  // A whole round is another number of steps on each cluster.
  out.push_back(absl::StrCat("algorithm.delay = ", a.round_late ? "round"
                                                   : a.delay    ? absl::StrCat(*a.delay)
                                                                : "auto"));
  out.push_back(absl::StrCat("algorithm.mix = ", a.mix ? Number(*a.mix) : "none"));
  out.push_back(absl::StrCat("algorithm.mean = ", a.mean_of_senders ? "senders" : "all"));
  out.push_back(absl::StrCat("codec = ", CodecText(run.codec)));
  out.push_back(absl::StrCat("route = ", RouteName(run.route)));
  return out;
}

engine::Hash256 AlgorithmDigest(const config::Run& run) {
  const std::string text = absl::StrJoin(AlgorithmLines(run), "\n") + "\n";
  return digest::Sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string FirstDifferentKey(absl::Span<const std::string> here,
                              absl::Span<const std::string> theirs, const std::string& their_name) {
  for (size_t i = 0; i < std::max(here.size(), theirs.size()); ++i) {
    const Line ours = i < here.size() ? Split(here[i]) : Line{"(nothing)", ""};
    const Line other = i < theirs.size() ? Split(theirs[i]) : Line{"(nothing)", ""};
    if (ours.key == other.key && ours.value == other.value) continue;
    if (ours.key == other.key) {
      return absl::StrCat(ours.key, ": ", Clean(ours.value), " here, ", Clean(other.value), " at ",
                          their_name);
    }
    return absl::StrCat(Clean(ours.key), " here where ", their_name, " has ", Clean(other.key));
  }
  return "";
}

}  // namespace causeway::run
