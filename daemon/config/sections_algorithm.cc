// A run's algorithm: which keys a rule has, and what they may say together.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/scalars.h"
#include "daemon/config/sections.h"
#include "daemon/config/suggest.h"

namespace causeway::config {
namespace {

constexpr int64_t kLocalStepsMax = 1'000'000;
constexpr int64_t kScheduleRoundsMax = 100'000'000;
constexpr int64_t kPenaltyWindowMax = 1'000'000;
constexpr double kLearningRateMax = 100.0;
constexpr double kPenaltyMax = 1e6;
constexpr double kClipMax = 1e6;

constexpr std::array kRules = {Rule::kAverage, Rule::kNesterov, Rule::kSparseLoco,
                               Rule::kCo2,     Rule::kEager,    Rule::kGradientAverage};

enum class Use { kNo, kMay, kMust };

// A key and the rules that have it, in kRules' order.
struct RuleKey {
  const char* name;
  std::array<Use, kRules.size()> use;
  const char* start;  // a good first value, where some rule needs it
};

constexpr Use kNo = Use::kNo;
constexpr Use kMay = Use::kMay;
constexpr Use kMust = Use::kMust;
constexpr RuleKey kRuleKeys[] = {
    // average, nesterov, sparseloco, co2, eager, gradients
    {"learning_rate", {kNo, kMust, kMust, kMust, kMust, kNo}, "0.7"},
    {"momentum", {kNo, kMust, kNo, kMay, kMust, kMay}, "0.5"},
    {"final_learning_rate", {kNo, kMay, kMay, kMay, kMay, kNo}, ""},
    {"schedule_rounds", {kNo, kMay, kMay, kMay, kMay, kNo}, ""},
    {"clip", {kNo, kNo, kNo, kMay, kNo, kMay}, ""},
    {"penalty", {kNo, kNo, kNo, kMay, kNo, kNo}, ""},
    {"penalty_window", {kNo, kNo, kNo, kMay, kNo, kNo}, ""},
    {"mix", {kMay, kMay, kMay, kNo, kNo, kNo}, ""},
    {"mean", {kNo, kNo, kMay, kNo, kNo, kNo}, ""},
    {"normalise", {kMay, kMay, kMay, kMay, kMay, kNo}, ""},
};

Use UseOf(const RuleKey& key, Rule rule) {
  return key.use[std::find(kRules.begin(), kRules.end(), rule) - kRules.begin()];
}

std::string RulesWith(const RuleKey& key) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (key.use[i] != Use::kNo) names.push_back(RuleName(kRules[i]));
  }
  return absl::StrJoin(names, ", ");
}

// Keys that are not there are read, too.
void TakeAbsent(MapReader& reader) {
  for (const RuleKey& key : kRuleKeys) {
    if (!reader.Has(key.name)) reader.Take(key.name);
  }
}

// Reports keys that the rule does not have, and those that it misses.
void CheckKeys(MapReader& reader, Rule rule) {
  for (const RuleKey& key : kRuleKeys) {
    const Use use = UseOf(key, rule);
    if (use == Use::kMust && !reader.Has(key.name)) {
      reader.Error(key.name, absl::StrCat("missing; rule ", RuleName(rule), " needs it (",
                                          key.start, " is a good start)"));
    } else if (use == Use::kNo && reader.Has(key.name)) {
      reader.KeyError(key.name, absl::StrCat("rule ", RuleName(rule), " does not have it (",
                                             RulesWith(key), " have); remove it"));
    }
  }
}

// A number above `low` (or equal to it, where `closed`) and at most `high`.
void ReadNumber(MapReader& reader, std::string_view key, double low, bool closed, double high,
                double* out) {
  double value = *out;
  reader.Number(key, &value);
  if ((value > low || (closed && value == low)) && value <= high) {
    *out = value;
  } else {
    reader.Error(key, absl::StrCat(value, " is out of range; allowed: ", closed ? "" : "above ",
                                   low, " to ", high));
  }
}

void ReadRates(MapReader& reader, Algorithm* algorithm) {
  ReadNumber(reader, "learning_rate", 0, false, kLearningRateMax, &algorithm->learning_rate);
  algorithm->final_learning_rate = algorithm->learning_rate;
  double momentum = algorithm->momentum;
  reader.Number("momentum", &momentum);
  if (!(momentum >= 0 && momentum < 1)) {
    reader.Error("momentum", absl::StrCat(momentum, " is out of range; allowed: 0 to below 1"));
  } else {
    algorithm->momentum = momentum;
  }
}

void ReadSchedule(MapReader& reader, Algorithm* algorithm) {
  const bool has_rate = reader.Has("final_learning_rate");
  const bool has_rounds = reader.Has("schedule_rounds");
  ReadNumber(reader, "final_learning_rate", 0, false, kLearningRateMax,
             &algorithm->final_learning_rate);
  int64_t rounds = 0;
  reader.Integer("schedule_rounds", 1, kScheduleRoundsMax, &rounds);
  algorithm->schedule_rounds = static_cast<uint32_t>(rounds);
  if (has_rate != has_rounds) {
    const char* there = has_rate ? "final_learning_rate" : "schedule_rounds";
    reader.KeyError(there,
                    absl::StrCat("goes with ", has_rate ? "schedule_rounds" : "final_learning_rate",
                                 ", which is missing"));
  }
}

void ReadPenalty(MapReader& reader, Algorithm* algorithm) {
  ReadNumber(reader, "clip", 0, !reader.Has("clip"), kClipMax, &algorithm->clip);
  const Node* node = reader.Has("penalty") ? reader.Take("penalty") : nullptr;
  if (node != nullptr && node->kind == Node::Kind::kScalar && node->scalar == "gap") {
    algorithm->gap_penalty = true;
  } else if (node != nullptr && node->kind == Node::Kind::kScalar &&
             !ParseNumber(node->scalar).ok()) {
    reader.Error("penalty", absl::StrCat(Describe(*node), " is neither a number nor gap",
                                         DidYouMean(node->scalar, {"gap"})));
  } else {
    ReadNumber(reader, "penalty", 0, false, kPenaltyMax, &algorithm->penalty);
  }
  int64_t window = 0;
  reader.Integer("penalty_window", 1, kPenaltyWindowMax, &window);
  algorithm->penalty_window = static_cast<uint32_t>(window);
  if (reader.Has("penalty_window") && !algorithm->gap_penalty) {
    reader.KeyError("penalty_window", "goes with penalty: gap");
  }
}

// H for every cluster, from a map by cluster name.
void ReadStepsMap(MapReader& reader, const Node& map, const std::string& own,
                  const std::vector<std::string>& clusters, Algorithm* algorithm) {
  std::map<std::string, uint32_t> steps;
  for (const Entry& entry : map.entries) {
    if (!clusters.empty() &&
        std::find(clusters.begin(), clusters.end(), entry.key) == clusters.end()) {
      reader.Error(
          "local_steps",
          absl::StrCat("'", entry.key, "' is not among the run's clusters (",
                       absl::StrJoin(clusters, ", "), ")", DidYouMean(entry.key, clusters)));
      return;
    }
    const absl::StatusOr<int64_t> count =
        entry.value.kind == Node::Kind::kScalar && !entry.value.quoted
            ? ParseInteger(entry.value.scalar)
            : absl::InvalidArgumentError(
                  absl::StrCat(Describe(entry.value), " is not a whole number"));
    if (!count.ok() || *count < 1 || *count > kLocalStepsMax) {
      reader.Error("local_steps", absl::StrCat("of ", entry.key, ": ",
                                               count.ok() ? absl::StrCat(*count, " is out of range")
                                                          : std::string(count.status().message()),
                                               "; allowed: 1 to ", kLocalStepsMax));
      return;
    }
    steps[entry.key] = static_cast<uint32_t>(*count);
  }
  for (const std::string& cluster : clusters) {
    if (steps.count(cluster) == 0) {
      reader.Error("local_steps", absl::StrCat("says nothing of '", cluster,
                                               "'; name every cluster of the run, or write one "
                                               "number for all"));
      return;
    }
    algorithm->steps_of.push_back(steps[cluster]);
    if (cluster == own) algorithm->local_steps = steps[cluster];
  }
}

// False: reported an error; what depends on H cannot be judged.
bool ReadSteps(MapReader& reader, const std::string& own, const std::vector<std::string>& clusters,
               Algorithm* algorithm) {
  const Node* node = reader.Has("local_steps") ? reader.Take("local_steps") : nullptr;
  if (node != nullptr && node->kind == Node::Kind::kMap) {
    ReadStepsMap(reader, *node, own, clusters, algorithm);
    return algorithm->steps_of.size() == clusters.size() && !clusters.empty();
  }
  int64_t local_steps = 1;
  if (!reader.Integer("local_steps", 1, kLocalStepsMax, &local_steps)) return false;
  algorithm->local_steps = static_cast<uint32_t>(local_steps);
  return true;
}

uint32_t FewestSteps(const Algorithm& algorithm) {
  if (algorithm.steps_of.empty()) return algorithm.local_steps;
  return *std::min_element(algorithm.steps_of.begin(), algorithm.steps_of.end());
}

// Rules whose results are a whole round late: without the key, and nothing else but 0 for co2.
void ReadRoundLate(MapReader& reader, Algorithm* algorithm) {
  algorithm->round_late = true;
  algorithm->delay = algorithm->local_steps;
  if (!reader.Has("delay")) {
    reader.Take("delay");
    return;
  }
  int64_t delay = -1;
  if (reader.Integer("delay", 0, kLocalStepsMax, &delay) && delay == 0 &&
      algorithm->rule == Rule::kCo2) {
    algorithm->round_late = false;
    algorithm->delay = 0;
  } else if (delay >= 0) {
    reader.KeyError(
        "delay",
        absl::StrCat("results of rule ", RuleName(algorithm->rule),
                     " are one round late; remove it",
                     algorithm->rule == Rule::kCo2 ? " or set 0 to wait for each round" : ""));
  }
}

// "auto" or a number of steps.
void ReadDelay(MapReader& reader, Algorithm* algorithm) {
  const uint32_t steps = FewestSteps(*algorithm);
  const Node* node = reader.Has("delay") ? reader.Take("delay") : nullptr;
  if (node != nullptr && node->kind == Node::Kind::kScalar && node->scalar == "auto") {
    algorithm->delay = std::nullopt;
    if (steps < 2) {
      reader.Error("delay",
                   "auto needs local_steps of at least 2: with 1 there is no step to hide "
                   "the exchange behind");
    }
    return;
  }
  int64_t delay = 0;
  if (node != nullptr && node->kind == Node::Kind::kScalar && !node->quoted &&
      !ParseInteger(node->scalar).ok()) {
    reader.Error("delay", absl::StrCat(Describe(*node), " is neither a whole number nor auto",
                                       DidYouMean(node->scalar, {"auto"})));
    return;
  }
  reader.Integer("delay", 0, kLocalStepsMax, &delay);
  if (delay >= steps && delay <= kLocalStepsMax && delay != 0) {
    reader.Error("delay", absl::StrCat(delay, " is not below local_steps (", steps,
                                       "): a result would fall due after the next submission"));
  }
  algorithm->delay = static_cast<uint32_t>(delay);
}

void ReadMix(MapReader& reader, Algorithm* algorithm) {
  if (!reader.Has("mix")) return;
  double mix = 0;
  ReadNumber(reader, "mix", 0, true, 1, &mix);
  algorithm->mix = mix;
  if (algorithm->delay == 0u) {
    reader.KeyError("mix", "goes with a delay: without one there is nothing to mix");
  }
}

void CheckSteps(MapReader& reader, const Algorithm& algorithm) {
  if (algorithm.rule == Rule::kGradientAverage) {
    if (algorithm.local_steps != 1 || !algorithm.steps_of.empty()) {
      reader.Error("local_steps", absl::StrCat(algorithm.local_steps,
                                               " does not go with rule gradients, which exchanges "
                                               "every step; set 1 or remove it"));
    }
    if (algorithm.clip > 0 && algorithm.fragments > 1) {
      reader.Error("clip",
                   "is of the whole gradient's norm, which a fragment of it does not know; set "
                   "fragments: 1 or remove it");
    }
    return;
  }
  const uint32_t steps = FewestSteps(algorithm);
  if (algorithm.fragments > steps) {
    reader.Error("fragments", absl::StrCat(algorithm.fragments, " is above local_steps (", steps,
                                           "): at most one fragment is exchanged a step"));
  }
}

}  // namespace

const char* RuleName(Rule rule) {
  switch (rule) {
    case Rule::kAverage:
      return "average";
    case Rule::kNesterov:
      return "nesterov";
    case Rule::kSparseLoco:
      return "sparseloco";
    case Rule::kCo2:
      return "co2";
    case Rule::kEager:
      return "eager";
    case Rule::kGradientAverage:
      return "gradients";
  }
  return "unknown";
}

void ReadAlgorithm(MapReader& run_reader, const std::string& path, Findings& findings,
                   const std::string& own, const std::vector<std::string>& clusters,
                   Algorithm* algorithm) {
  const Node* node = run_reader.TakeMap("algorithm");
  if (node == nullptr) return;
  MapReader reader(*node, path + ".algorithm", "runs[].algorithm", findings);
  std::vector<std::string> names;
  for (Rule rule : kRules) names.push_back(RuleName(rule));
  const int rule = reader.Choice("rule", names);
  int64_t fragments = 1;
  const bool steps = ReadSteps(reader, own, clusters, algorithm);
  const bool parts = reader.Integer("fragments", 1, kFragmentsMax, &fragments);
  algorithm->fragments = static_cast<uint32_t>(fragments);
  if (rule < 0 || !steps || !parts) {  // what depends on them cannot be judged
    for (const RuleKey& key : kRuleKeys) reader.Take(key.name);
    reader.Take("delay");
    return;
  }
  algorithm->rule = kRules[rule];
  CheckKeys(reader, algorithm->rule);
  ReadRates(reader, algorithm);
  ReadSchedule(reader, algorithm);
  ReadPenalty(reader, algorithm);
  if (algorithm->rule == Rule::kCo2 || algorithm->rule == Rule::kEager) {
    ReadRoundLate(reader, algorithm);
  } else {
    ReadDelay(reader, algorithm);
  }
  ReadMix(reader, algorithm);
  if (reader.Has("normalise")) {
    algorithm->normalise_steps = reader.Choice("normalise", {"none", "steps"}) == 1;
  }
  if (reader.Has("mean")) {
    algorithm->mean_of_senders = reader.Choice("mean", {"all", "senders"}) == 1;
  }
  TakeAbsent(reader);
  CheckSteps(reader, *algorithm);
}

}  // namespace causeway::config
