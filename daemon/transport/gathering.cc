// Rejected: SO_RCVLOWAT, which would need to know where the last message of a burst ends.
#include "daemon/transport/gathering.h"

#include <algorithm>

namespace causeway::transport {
namespace {

constexpr double kBulkBytesPerS = 1e6;  // below it there are few packets to wake up for
constexpr double kOneWay = 4;           // so much more comes than goes
constexpr absl::Duration kGatherMax = absl::Milliseconds(2);
constexpr absl::Duration kGatherMin = absl::Microseconds(200);  // a sleep costs a wake-up, too
constexpr int kRoundTripParts = 50;

}  // namespace

absl::Duration GatherTime(const Traffic& traffic) {
  const bool bulk = traffic.bytes_received_per_s >= kBulkBytesPerS;
  if (!bulk || traffic.bytes_received_per_s < kOneWay * traffic.bytes_sent_per_s) {
    return absl::ZeroDuration();
  }
  const absl::Duration time = std::min(kGatherMax, traffic.rtt_min / kRoundTripParts);
  return time < kGatherMin ? absl::ZeroDuration() : time;
}

}  // namespace causeway::transport
