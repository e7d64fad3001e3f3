// Runs: what each trains, between which clusters.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/scalars.h"
#include "daemon/config/sections.h"
#include "daemon/config/suggest.h"
#include "security/identity.h"

namespace causeway::config {
namespace {

constexpr size_t kRunNameBytesMax = 63;  // as proto/local_protocol.h
constexpr int64_t kLocalStepsMax = 1'000'000;
constexpr double kLearningRateMax = 100.0;
constexpr int64_t kWaitTimeoutMsMax = int64_t{7} * 24 * 3600 * 1000;

std::vector<std::string> KnownClusters(const Config& config) {
  std::vector<std::string> known = {config.cluster};
  for (const Peer& peer : config.peers) known.push_back(peer.cluster);
  return known;
}

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void CheckRunName(MapReader& reader, const std::string& name) {
  const bool fits = name.size() <= kRunNameBytesMax && absl::ascii_isalnum(name.front()) &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
                    });
  if (fits) return;
  reader.Error("name", absl::StrCat("'", name, "' is not a run's name: 1 to ", kRunNameBytesMax,
                                    " letters, digits and . _ -, the first a letter or digit"));
}

void ReadClusters(MapReader& reader, const Config& config, Findings& findings, Run* run) {
  std::vector<std::string> names;
  std::vector<Place> places;
  const bool listed = reader.Strings("clusters", kPeersMax + 1, &names, &places);
  const std::vector<std::string> known = KnownClusters(config);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!CheckClusterName(places[i], names[i], findings)) continue;
    if (!config.cluster.empty() && !Contains(known, names[i])) {
      findings.Error(places[i].position, places[i].key,
                     absl::StrCat("'", names[i], "' is neither this cluster nor one of the peers",
                                  DidYouMean(names[i], known)));
    } else if (!seen.insert(names[i]).second) {
      findings.Error(places[i].position, places[i].key,
                     absl::StrCat("'", names[i], "' is named twice"));
    }
  }
  run->clusters.assign(seen.begin(), seen.end());
  const bool clean = places.size() == seen.size() && !names.empty();
  if (listed && reader.Take("clusters")->items.empty())
    reader.Error("clusters", "names no cluster");
  if (clean && !config.cluster.empty() && seen.count(config.cluster) == 0) {
    reader.Error("clusters",
                 absl::StrCat("this cluster, '", config.cluster, "', is not among them"));
  }
}

void ReadMember(MapReader& reader, std::string_view key, const Run& run, std::string* out) {
  reader.String(key, out);
  if (out->empty() || run.clusters.empty() || Contains(run.clusters, *out)) return;
  reader.Error(
      key, absl::StrCat("'", *out, "' is not among the run's clusters (",
                        absl::StrJoin(run.clusters, ", "), ")", DidYouMean(*out, run.clusters)));
}

void ReadRates(MapReader& reader, Algorithm* algorithm) {
  const bool outer_momentum = algorithm->rule == Rule::kNesterov;
  for (const std::string_view key : {"learning_rate", "momentum"}) {
    if (outer_momentum == reader.Has(key)) continue;
    if (outer_momentum) {
      reader.Error(key, absl::StrCat("missing; rule nesterov needs it (",
                                     key == "momentum" ? "0.5" : "0.7", " is a good start)"));
    } else {
      reader.KeyError(key, "only rule nesterov has it; remove it or change the rule");
    }
  }
  double rate = algorithm->learning_rate;
  double momentum = algorithm->momentum;
  reader.Number("learning_rate", &rate);
  reader.Number("momentum", &momentum);
  if (!outer_momentum) return;
  if (!(rate > 0 && rate <= kLearningRateMax)) {
    reader.Error("learning_rate",
                 absl::StrCat(rate, " is out of range; allowed: above 0 to ", kLearningRateMax));
  }
  if (!(momentum >= 0 && momentum < 1)) {
    reader.Error("momentum", absl::StrCat(momentum, " is out of range; allowed: 0 to below 1"));
  }
  algorithm->learning_rate = rate;
  algorithm->momentum = momentum;
}

// "auto" or a number of steps.
void ReadDelay(MapReader& reader, Algorithm* algorithm) {
  const Node* node = reader.Has("delay") ? reader.Take("delay") : nullptr;
  if (node != nullptr && node->kind == Node::Kind::kScalar && node->scalar == "auto") {
    algorithm->delay = std::nullopt;
    if (algorithm->local_steps < 2) {
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
  if (delay >= algorithm->local_steps && delay <= kLocalStepsMax && delay != 0) {
    reader.Error("delay", absl::StrCat(delay, " is not below local_steps (", algorithm->local_steps,
                                       "): a result would fall due after the next submission"));
  }
  algorithm->delay = static_cast<uint32_t>(delay);
}

void CheckSteps(MapReader& reader, const Algorithm& algorithm) {
  if (algorithm.rule == Rule::kGradientAverage) {
    if (algorithm.local_steps != 1) {
      reader.Error("local_steps", absl::StrCat(algorithm.local_steps,
                                               " does not go with rule gradients, which exchanges "
                                               "every step; set 1 or remove it"));
    }
    return;
  }
  if (algorithm.fragments > algorithm.local_steps) {
    reader.Error("fragments",
                 absl::StrCat(algorithm.fragments, " is above local_steps (", algorithm.local_steps,
                              "): at most one fragment is exchanged a step"));
  }
}

void ReadAlgorithm(MapReader& run_reader, const std::string& path, Findings& findings,
                   Algorithm* algorithm) {
  const Node* node = run_reader.TakeMap("algorithm");
  if (node == nullptr) return;
  MapReader reader(*node, path + ".algorithm", "runs[].algorithm", findings);
  const int rule = reader.Choice("rule", {"average", "nesterov", "gradients"});
  int64_t local_steps = 1;
  int64_t fragments = 1;
  const bool steps = reader.Integer("local_steps", 1, kLocalStepsMax, &local_steps);
  const bool parts = reader.Integer("fragments", 1, kFragmentsMax, &fragments);
  algorithm->local_steps = static_cast<uint32_t>(local_steps);
  algorithm->fragments = static_cast<uint32_t>(fragments);
  if (rule < 0 || !steps || !parts) {  // what depends on them cannot be judged
    for (const std::string_view key : {"learning_rate", "momentum", "delay"}) reader.Take(key);
    return;
  }
  algorithm->rule = std::array{Rule::kAverage, Rule::kNesterov, Rule::kGradientAverage}[rule];
  ReadRates(reader, algorithm);
  ReadDelay(reader, algorithm);
  CheckSteps(reader, *algorithm);
}

void ReadRun(const Node& item, const std::string& path, const Context& context,
             std::map<std::string, int>* lines, Config* config) {
  const Node* map = MapEntry(item, path, context.findings);
  if (map == nullptr) return;
  MapReader reader(*map, path, "runs[]", context.findings);
  Run run;
  reader.String("name", &run.name);
  if (!run.name.empty()) {
    CheckRunName(reader, run.name);
    const auto [first, fresh] = lines->emplace(run.name, reader.PlaceOf("name").position.line);
    if (!fresh) {
      reader.Error("name",
                   absl::StrCat("'", run.name, "' is already a run, on line ", first->second));
    }
  }
  ReadClusters(reader, *config, context.findings, &run);
  ReadMember(reader, "seed", run, &run.seed);
  ReadMember(reader, "primary", run, &run.primary);
  if (run.seed.empty() && !run.clusters.empty()) run.seed = run.clusters.front();
  reader.DurationMs("wait_timeout", 0, kWaitTimeoutMsMax, &run.wait_timeout_ms);
  ReadAlgorithm(reader, path, context.findings, &run.algorithm);
  ReadCodec(reader, path, context.findings, &run.codec);
  ReadRoute(reader, &run.route);
  config->runs.push_back(std::move(run));
}

}  // namespace

void ReadRuns(MapReader& top, const Context& context, Config* config) {
  std::map<std::string, int> lines;
  const std::vector<const Node*> items = ListItems(top, "runs", kRunsMax);
  for (size_t i = 0; i < items.size(); ++i) {
    ReadRun(*items[i], absl::StrCat("runs[", i, "]"), context, &lines, config);
  }
  if (!top.Has("runs") || (items.empty() && context.findings.errors().empty())) {
    top.Warning("runs", "no runs: trainers cannot join anything");
  }
}

}  // namespace causeway::config
