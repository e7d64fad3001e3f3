// Rates: what the path to a peer carries, each way, measured from the chunks that move anyway.
//
// RateMeter is plain logic: the caller passes monotonic times; one thread at a time. PeerRates is a
// snapshot, from Transport::Rates() on any thread. Nothing is sent in order to measure: a link that
// carried nothing yet has no rate, and confidence says how much a rate rests on.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_RATES_H_
#define CAUSEWAY_DAEMON_TRANSPORT_RATES_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace causeway::transport {

struct DirectionRate {
  double bytes_per_s = 0;  // of chunk payload while chunks waited for the line; 0: not measured
  absl::Duration age = absl::InfiniteDuration();  // since the newest measurement
  // 0: nothing known; up to 0.25: from TCP's own estimate or a burst shorter than a round trip; 1:
  // the line was full for a second or more. Does not fall with age: the reader knows what that
  // means to it.
  double confidence = 0;
};

struct PeerRates {
  std::string cluster;
  bool up = false;  // linked now; the rates outlive links
  DirectionRate send;
  DirectionRate receive;   // what arrived in bursts: never above what the peer had to send
  absl::Duration rtt;      // smoothed, of the control stream; zero: not measured
  absl::Duration rtt_min;  // of this link
  double loss = 0;         // segments that TCP sent again, of all, over the live connections
};

// One direction of one peer.
class RateMeter {
 public:
  // Sending: chunks begin, or cease, to wait for the line alone (not for credit or a rate limit).
  void SetBusy(absl::Time now, bool busy);
  // `bytes` came through. Outside of busy times they count for nothing.
  void Moved(absl::Time now, uint64_t bytes, absl::Duration rtt);
  // Receiving, where nobody says what waits: arrivals without a gap are a busy time.
  void Arrived(absl::Time now, uint64_t bytes, absl::Duration rtt);
  // TCP's own estimate, which holds as long as there is nothing better.
  void Hint(absl::Time now, double bytes_per_s);

  bool busy() const { return busy_; }
  DirectionRate Rate(absl::Time now) const;

 private:
  void Sample(absl::Time now, double bytes_per_s, absl::Duration span);

  bool busy_ = false;
  absl::Time window_begin_;  // in the future while the line still fills
  uint64_t window_bytes_ = 0;
  absl::Duration window_;
  absl::Time moved_at_ = absl::InfinitePast();
  double bytes_per_s_ = 0;
  double busy_seconds_ = 0;  // that the rate rests on
  double hint_bytes_per_s_ = 0;
  absl::Time measured_at_ = absl::InfinitePast();
  absl::Time hinted_at_ = absl::InfinitePast();
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_RATES_H_
