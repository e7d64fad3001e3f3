#include "daemon/transport/link_timing.h"

#include <algorithm>

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
  Sample(rtt);
}

void RttMeter::Sample(absl::Duration rtt) {
  smoothed_ = samples_count_ == 0 ? rtt : smoothed_ + (rtt - smoothed_) / 8;
  samples_[samples_count_ % kLowestOf] = rtt;
  samples_count_ = samples_count_ + 1 < 2 * kLowestOf ? samples_count_ + 1 : kLowestOf;
}

absl::Duration RttMeter::lowest() const {
  if (samples_count_ == 0) return absl::ZeroDuration();
  return *std::min_element(samples_.begin(),
                           samples_.begin() + std::min(samples_count_, kLowestOf));
}

absl::Duration Backoff::Next(std::mt19937_64& random) {
  if (failures_++ == 0) return absl::ZeroDuration();
  const int doublings = std::min(failures_ - 2, 10);
  const absl::Duration delay = std::min(kBackoffFirst * (int64_t{1} << doublings), kBackoffMax);
  std::uniform_real_distribution<double> part(0.75, 1.0);
  return delay * part(random);
}

}  // namespace causeway::transport
