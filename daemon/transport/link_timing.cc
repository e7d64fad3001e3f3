#include "daemon/transport/link_timing.h"

#include <algorithm>
#include <utility>

namespace causeway::transport {
namespace {

constexpr absl::Duration kHelloTimeoutMin = absl::Seconds(2);
constexpr absl::Duration kHelloTimeoutMax = absl::Seconds(10);
constexpr absl::Duration kDialGraceMax = absl::Seconds(1);
constexpr absl::Duration kTickMin = absl::Milliseconds(5);
constexpr absl::Duration kTickMax = absl::Milliseconds(50);
constexpr absl::Duration kBackoffFirst = absl::Milliseconds(200);
constexpr absl::Duration kBackoffMax = absl::Seconds(3);

}  // namespace

LinkTimes::LinkTimes(absl::Duration timeout)
    : peer_timeout(timeout),
      heartbeat(timeout / 5),
      heartbeat_alone(timeout / 4),
      hello_timeout(std::clamp(timeout, kHelloTimeoutMin, kHelloTimeoutMax)),
      dial_grace(std::min(timeout / 5, kDialGraceMax)),
      progress(timeout / 20),
      tick(std::clamp(timeout / 100, kTickMin, kTickMax)) {}

uint64_t RttMeter::Sent(absl::Time now) {
  ++newest_;
  sent_[newest_ % sent_.size()] = now;
  return newest_;
}

void RttMeter::Echo(absl::Time now, uint64_t sequence, absl::Duration delay) {
  if (sequence <= echoed_ || sequence > newest_ || newest_ - sequence >= sent_.size()) return;
  const absl::Duration rtt = now - sent_[sequence % sent_.size()] - delay;
  if (delay < absl::ZeroDuration() || rtt < absl::ZeroDuration()) return;
  echoed_ = sequence;
  Sample(now, rtt);
}

void RttMeter::Sample(absl::Time now, absl::Duration rtt) {
  const bool first = begin_ == absl::InfinitePast();
  smoothed_ = first ? rtt : smoothed_ + (rtt - smoothed_) / 8;
  if (now - begin_ >= kLowestOf) {
    lowest_before_ = std::exchange(lowest_, absl::InfiniteDuration());
    begin_ = now;
  }
  lowest_ = std::min(lowest_, rtt);
}

absl::Duration RttMeter::lowest() const {
  if (begin_ == absl::InfinitePast()) return absl::ZeroDuration();
  return std::min(lowest_, lowest_before_);
}

absl::Duration Backoff::Next(std::mt19937_64& random) {
  if (failures_++ == 0) return absl::ZeroDuration();
  const int doublings = std::min(failures_ - 2, 10);
  const absl::Duration delay = std::min(kBackoffFirst * (int64_t{1} << doublings), kBackoffMax);
  std::uniform_real_distribution<double> part(0.75, 1.0);
  return delay * part(random);
}

}  // namespace causeway::transport
