// Runs: what each trains, between which clusters.
#include <algorithm>
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

// What algorithm, codec and route say together.
void CheckTogether(MapReader& reader, Run* run) {
  const std::string kind = run->codec.kind.substr(0, run->codec.kind.find(':'));
  const bool sparse = (kind == "topk" || kind == "btopk") && run->codec.ladder.empty();
  if (run->algorithm.CorrectsGradients() && !(sparse && run->codec.error_feedback)) {
    reader.Error(
        "codec",
        "momentum and clip of rule gradients are for what topk and btopk send late: set one "
        "of them with error_feedback: true, or remove momentum and clip from algorithm");
  }
  if (!run->algorithm.mean_of_senders) return;
  // An owner's result says no more who sent a value.
  if (run->route == Route::kOwner) {
    reader.Error("route", "does not go with mean: senders; set direct or remove it");
  }
  run->route = Route::kDirect;
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
  ReadAlgorithm(reader, path, context.findings, config->cluster, run.clusters, &run.algorithm);
  ReadCodec(reader, path, context.findings, &run.codec);
  ReadRoute(reader, &run.route);
  CheckTogether(reader, &run);
  ReadStragglers(reader, path, context.findings, &run.grace_ms);
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
