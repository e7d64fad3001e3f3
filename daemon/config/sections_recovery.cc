// What a run does about the late, and how often its state is written to disk.
#include <string>
#include <vector>

#include "daemon/config/sections.h"

namespace causeway::config {
namespace {

constexpr int64_t kRoundsMax = 1'000'000;
constexpr int64_t kIntervalMsMax = int64_t{24} * 3600 * 1000;
constexpr int64_t kSnapshotsMax = 1000;
constexpr int64_t kGraceMsMin = 10;
constexpr int64_t kGraceMsMax = int64_t{3600} * 1000;
constexpr int64_t kGraceMsDefault = 5'000;

}  // namespace

void ReadCheckpoint(MapReader& top, const Context& context, Checkpoint* checkpoint) {
  const Node* node = top.TakeMap("checkpoint");
  MapReader reader(node == nullptr ? EmptyMap() : *node, "checkpoint", "checkpoint",
                   context.findings);
  reader.Integer("rounds", 0, kRoundsMax, &checkpoint->rounds);
  reader.DurationMs("interval", 0, kIntervalMsMax, &checkpoint->interval_ms);
  reader.Integer("snapshots", 0, kSnapshotsMax, &checkpoint->snapshots);
  if (checkpoint->rounds == 0 && checkpoint->interval_ms == 0) {
    reader.Warning("interval",
                   "with rounds 0, too, no outer state is kept on disk: when all gateways of a run "
                   "end, the run is lost");
  }
}

void ReadStragglers(MapReader& run_reader, const std::string& path, Findings& findings,
                    int64_t* grace_ms) {
  const Node* node = run_reader.TakeMap("stragglers");
  if (node == nullptr) return;
  MapReader reader(*node, path + ".stragglers", "runs[].stragglers", findings);
  const bool deadline = reader.Choice("policy", {"wait", "deadline"}) == 1;
  int64_t grace = kGraceMsDefault;
  if (!deadline && reader.Has("grace")) {
    reader.KeyError("grace", "only policy deadline has it; remove it or change the policy");
  }
  reader.DurationMs("grace", kGraceMsMin, kGraceMsMax, &grace);
  if (deadline) *grace_ms = grace;
}

}  // namespace causeway::config
