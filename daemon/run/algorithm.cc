// Numbers are printed so that they read back to the same double.
#include "daemon/run/algorithm.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/outer/outer_state.h"

namespace causeway::run {
namespace {

constexpr size_t kLineShownMax = 80;

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

const char* RuleName(config::Rule rule) {
  switch (rule) {
    case config::Rule::kAverage:
      return "average";
    case config::Rule::kNesterov:
      return "nesterov";
    case config::Rule::kGradientAverage:
      return "gradients";
  }
  return "unknown";
}

bool HasOuterRule(const config::Run& run) {
  return run.algorithm.rule != config::Rule::kGradientAverage;
}

outer::RuleSpec RuleOf(const config::Algorithm& algorithm) {
  outer::RuleSpec out;
  out.learning_rate = algorithm.learning_rate;
  out.momentum = algorithm.momentum;
  switch (algorithm.rule) {
    case config::Rule::kAverage:
      out.kind = outer::RuleSpec::Kind::kAverage;
      break;
    case config::Rule::kNesterov:
      out.kind = outer::RuleSpec::Kind::kNesterov;
      break;
    case config::Rule::kGradientAverage:
      out.kind = outer::RuleSpec::Kind::kGradients;
      break;
  }
  return out;
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
  out.push_back(absl::StrCat("algorithm.rule = ", RuleName(a.rule)));
  out.push_back(absl::StrCat("algorithm.learning_rate = ", Number(a.learning_rate)));
  out.push_back(absl::StrCat("algorithm.momentum = ", Number(a.momentum)));
  out.push_back(absl::StrCat("algorithm.local_steps = ", a.local_steps));
  out.push_back(absl::StrCat("algorithm.fragments = ", a.fragments));
  out.push_back(absl::StrCat("algorithm.delay = ", a.delay ? absl::StrCat(*a.delay) : "auto"));
  out.push_back(absl::StrCat("codec = ", CodecText(run.codec)));
  out.push_back(absl::StrCat("route = ", RouteName(run.route)));
  return out;
}

engine::Hash256 AlgorithmDigest(const config::Run& run) {
  const std::string text = absl::StrJoin(AlgorithmLines(run), "\n") + "\n";
  return outer::Sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
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
