#include "daemon/transport/stall_watch.h"

#include <algorithm>

namespace causeway::transport {
namespace {

constexpr absl::Duration kStalledMin = absl::Seconds(1);
constexpr int kStalledRtts = 4;
constexpr int kRepeatsMax = 4;

}  // namespace

void StallWatch::Moved(absl::Time now) { looked_at_ = moved_at_ = now; }

StallWatch::Verdict StallWatch::Look(absl::Time now, const Sample& sample) {
  const bool moved = sample.segments_delivered != delivered_ || sample.bytes_received != received_;
  const bool paused = now - looked_at_ > kGapMax;
  delivered_ = sample.segments_delivered;
  received_ = sample.bytes_received;
  looked_at_ = now;
  if (moved || paused || sample.in_flight == 0) moved_at_ = now;
  const absl::Duration patience = std::max(kStalledMin, kStalledRtts * sample.rtt) *
                                  (int64_t{1} << std::min(repeats_, kRepeatsMax));
  const absl::Duration still = now - moved_at_;
  if (still >= patience && sample.backing_off == sample.in_flight) return Verdict::kStalled;
  return still >= patience / 2 ? Verdict::kQuiet : Verdict::kMoves;
}

}  // namespace causeway::transport
