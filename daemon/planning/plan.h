// What a leader fixes for later rounds of a run: how contributions are encoded, which way they go,
// and who reduces which chunk. Plain data, the same on every member.
//
// Pure; any thread. Does not: choose (cost_model.h, planner.h), or know bytes on the wire
// (daemon/run).
#ifndef CAUSEWAY_DAEMON_PLANNING_PLAN_H_
#define CAUSEWAY_DAEMON_PLANNING_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "daemon/engine/ids.h"

namespace causeway::planning {

// kDirect: every contributor sends every chunk to every member; each reduces alone. One hop.
// kOwner: a chunk goes to its owner, who reduces it, encodes the mean once more with a residual of
// its own, and sends that to the others; everybody, the owner too, takes the decoded bytes. Two
// hops; a cluster with share s moves 1 + (n - 2) s of the data instead of n - 1.
enum class Route : uint8_t { kDirect = 1, kOwner = 2 };  // ids on the wire

// Shares are given in parts of this many.
inline constexpr uint32_t kShareParts = 4096;
inline constexpr size_t kReasonBytesMax = 512;

struct Plan {
  compression::CodecSpec codec;  // of contributions, and of an owner's results
  // Clusters behind a slower link may encode their contributions harder; the others use `codec`.
  std::map<engine::ClusterId, compression::CodecSpec> codecs;
  Route route = Route::kDirect;
  // kOwner only: parts by cluster, ascending, summing to kShareParts; clusters without parts own
  // nothing.
  std::map<engine::ClusterId, uint32_t> parts;
  std::string reason;  // for people; at most kReasonBytesMax, no part of the plan's meaning

  // How `cluster` encodes its contributions, so how everybody decodes them.
  const compression::CodecSpec& ContributionCodec(engine::ClusterId cluster) const {
    const auto own = codecs.find(cluster);
    return own == codecs.end() ? codec : own->second;
  }

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Owners of chunks 0..chunks-1, in proportion to the parts (largest remainder, ties to the lower
// cluster) and interleaved, so that every owner gets some early: the next chunk goes to the owner
// that is furthest behind its share. Fewer chunks than owners: the largest shares first. Empty for
// kDirect.
std::vector<engine::ClusterId> OwnersOf(const Plan& plan, uint32_t chunks);

// Plans by id, as the engine's PlanKnown brings them; id 0 is what the configuration says. Keeps
// the newest of the leaders' and of each other teller (engine::kPlansKept and as many again), since
// rounds in flight may name older ones. Confined to the loop's thread.
class PlanBook {
 public:
  explicit PlanBook(Plan configured) { plans_.emplace(0, Entry{std::move(configured), {}}); }

  void Add(engine::PlanId id, Plan plan, std::optional<engine::ClusterId> told_by);
  // Null: not known here (yet, or any more).
  const Plan* Find(engine::PlanId id) const;

 private:
  struct Entry {
    Plan plan;
    std::optional<engine::ClusterId> told_by;
  };
  std::map<engine::PlanId, Entry> plans_;
};

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_PLAN_H_
