// RateLimit: a token bucket that paces what goes to, or is let come from, one peer.
//
// Plain logic: the caller passes monotonic times; one thread at a time. It counts payload and adds
// what TLS, framing and packet headers take, so that the limit is of the line, about.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_RATE_LIMIT_H_
#define CAUSEWAY_DAEMON_TRANSPORT_RATE_LIMIT_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace causeway::transport {

class RateLimit {
 public:
  // `bits_per_s` on the line; 0: no limit. At most what fits into `burst` goes at once.
  RateLimit(uint64_t bits_per_s, absl::Duration burst)
      : bytes_per_s_(static_cast<double>(bits_per_s) / 8 / kLineBytesPerPayload),
        burst_bytes_(std::max(bytes_per_s_ * absl::ToDoubleSeconds(burst), kBurstBytesMin)),
        tokens_(burst_bytes_) {}

  bool limited() const { return bytes_per_s_ > 0; }
  double bytes_per_s() const { return bytes_per_s_; }  // of payload
  uint64_t burst_bytes() const { return static_cast<uint64_t>(burst_bytes_); }

  // Bytes that may go now; negative: a debt, which Take may make.
  double Tokens(absl::Time now) {
    const double seconds = absl::ToDoubleSeconds(std::max(now - filled_at_, absl::ZeroDuration()));
    tokens_ = std::min(burst_bytes_, tokens_ + seconds * bytes_per_s_);
    filled_at_ = std::max(now, filled_at_);
    return tokens_;
  }
  void Take(uint64_t payload_bytes) { tokens_ -= static_cast<double>(payload_bytes); }
  // When Tokens will be positive again.
  absl::Time ReadyAt(absl::Time now) {
    const double missing = -Tokens(now);
    return missing < 0 ? now : now + absl::Seconds((missing + 1) / bytes_per_s_);
  }

 private:
  static constexpr double kLineBytesPerPayload = 1.06;  // measured, acknowledgements included
  static constexpr double kBurstBytesMin = 64 << 10;

  const double bytes_per_s_;
  const double burst_bytes_;
  double tokens_;
  absl::Time filled_at_ = absl::UnixEpoch();
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_RATE_LIMIT_H_
