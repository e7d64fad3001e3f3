// Reads each section of the file into the Config. One thread; errors go to the reader's findings,
// and what is wrong keeps its default, so that the checks after still run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/map_reader.h"

namespace causeway::config {

// What the sections share while one file is read.
struct Context {
  Findings& findings;
  const ParseOptions& options;
};

// Everything but peers and runs.
void ReadTop(MapReader& top, const Context& context, Config* config);
// Peers, lanes, relays and the advertised address.
void ReadPeers(MapReader& top, const Context& context, Config* config);
// After ReadTop and ReadPeers: runs refer to clusters.
void ReadRuns(MapReader& top, const Context& context, Config* config);

// The run's `algorithm`; `clusters` are the run's, `own` is this one.
void ReadAlgorithm(MapReader& run_reader, const std::string& path, Findings& findings,
                   const std::string& own, const std::vector<std::string>& clusters,
                   Algorithm* algorithm);

// How often outer state goes to disk.
void ReadCheckpoint(MapReader& top, const Context& context, Checkpoint* checkpoint);
// The run's `stragglers`: how long a round waits at least; 0: until everybody is there.
void ReadStragglers(MapReader& run_reader, const std::string& path, Findings& findings,
                    int64_t* grace_ms);

// The list's items; empty where it is absent, malformed or too long (then reported).
std::vector<const Node*> ListItems(MapReader& top, std::string_view key, size_t count_max);
// The entry as a map, or null with an error.
const Node* MapEntry(const Node& item, const std::string& path, Findings& findings);
// An absolute path.
void ReadPath(MapReader& reader, std::string_view key, std::string* out);
// A cluster name, or one that is nearly right, explained.
bool CheckClusterName(const Place& place, const std::string& name, Findings& findings);
// A map of this section, empty where the key is absent (its required keys are not missed then).
inline const Node& EmptyMap() {
  static const Node* const node = [] {
    auto* map = new Node;
    map->kind = Node::Kind::kMap;
    return map;
  }();
  return *node;
}

// The run's `codec` and `route`.
void ReadCodec(MapReader& run_reader, const std::string& path, Findings& findings, Codec* codec);
void ReadRoute(MapReader& run_reader, Route* route);
// The canonical text of a codec; the message of a failure reads after "codec.kind: ".
absl::StatusOr<Codec> CheckCodec(const std::string& kind, std::optional<bool> error_feedback,
                                 std::string* warning);

}  // namespace causeway::config
