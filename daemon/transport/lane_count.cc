#include "daemon/transport/lane_count.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::transport {
namespace {

constexpr double kHttp2WindowBytes = 32 << 20;  // gRPC gives one connection no more
// The kernel counts its own bookkeeping into the buffer: so much of it is data.
constexpr double kPayloadShare = 0.5;
constexpr uint64_t kKernelDefaultBytes = 4 << 20;
constexpr double kHeadroom = 1.25;
constexpr double kRoomyBytes = 8 << 20;
constexpr int kFirstRoomy = 4;
constexpr int kFirstTight = 8;
constexpr double kConfidenceMin = 0.3;

}  // namespace

uint64_t SendBufferBytesMax(const std::string& tcp_wmem_path) {
  std::ifstream file(tcp_wmem_path);
  uint64_t least = 0, first = 0, most = 0;
  if (!(file >> least >> first >> most) || most == 0) return kKernelDefaultBytes;
  return most;
}

LaneCount::LaneCount(int fixed, int most, uint64_t send_buffer_bytes)
    : automatic_(fixed == 0),
      most_(automatic_ ? most : std::min(fixed, most)),
      connection_bytes_(
          std::min(kHttp2WindowBytes, kPayloadShare * static_cast<double>(send_buffer_bytes))),
      wanted_(std::min(most_, connection_bytes_ >= kRoomyBytes ? kFirstRoomy : kFirstTight)) {
  if (!automatic_) wanted_ = most_;
  if (!automatic_) {
    reason_ = absl::StrCat(wanted_,
                           most_ < fixed ? ": this peer's share of all lanes" : ": as configured");
    return;
  }
  reason_ = absl::StrCat(wanted_, ": to begin with, ",
                         absl::StrFormat("%.1f MB a connection", connection_bytes_ / 1e6));
}

bool LaneCount::Look(const DirectionRate& send, absl::Duration rtt) {
  if (!automatic_ || send.confidence < kConfidenceMin || rtt <= absl::ZeroDuration()) return false;
  const double in_flight = send.bytes_per_s * absl::ToDoubleSeconds(rtt);
  const double lanes = std::ceil(kHeadroom * in_flight / connection_bytes_) + 1;
  const int enough = static_cast<int>(std::min<double>(lanes, most_));
  const bool more = enough > wanted_;
  const bool agreed = more && more_before_;
  more_before_ = more && !agreed;
  if (!agreed) return false;
  wanted_ = enough;
  reason_ = absl::StrFormat("%d: %.1f MB/s over %.0f ms, %.1f MB a connection", wanted_,
                            send.bytes_per_s / 1e6, absl::ToDoubleMilliseconds(rtt),
                            connection_bytes_ / 1e6);
  return true;
}

}  // namespace causeway::transport
