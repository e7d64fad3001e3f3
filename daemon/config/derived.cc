// The links' own times are in daemon/transport/link_timing.h; a test keeps the two equal.
#include "daemon/config/derived.h"

#include <algorithm>

namespace causeway::config {

Timeouts DeriveTimeouts(const Config& config) {
  const int64_t peer = config.peer_timeout_ms;
  Timeouts times;
  times.peer_timeout_ms = peer;
  times.heartbeat_ms = peer / 5;
  times.hello_ms = std::clamp<int64_t>(peer, 2'000, 10'000);
  times.lane_stall_ms = peer;
  times.redial_first_ms = 200;
  times.redial_last_ms = 3'000;
  times.keepalive_ms = 30'000;
  times.keepalive_lost_ms = std::max<int64_t>(2 * peer, 20'000);
  times.trainer_told_ms = peer + 2'000;
  return times;
}

}  // namespace causeway::config
