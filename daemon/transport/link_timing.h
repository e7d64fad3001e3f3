// Times of a link: everything derived from peer_timeout, round-trip time from heartbeats, dial
// back-off.
//
// Plain logic: the caller passes times (of a monotonic clock) and random numbers. One thread at a
// time.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LINK_TIMING_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LINK_TIMING_H_

#include <array>
#include <cstdint>
#include <optional>
#include <random>

#include "absl/time/time.h"

namespace causeway::transport {

struct LinkTimes {
  explicit LinkTimes(absl::Duration peer_timeout);

  absl::Duration peer_timeout;     // nothing received for this long: the peer is down
  absl::Duration heartbeat;        // a heartbeat about this often, with a run message if one comes
  absl::Duration heartbeat_alone;  // without one
  absl::Duration hello_timeout;    // connect, handshake and hello together
  absl::Duration dial_grace;       // the higher name waits this long for the lower one's link
  absl::Duration progress;         // OnProgress at most this often
  absl::Duration tick;             // how often timers are looked at
};

// Round-trip time by heartbeat echoes. The lowest is of the last kLowestOf to twice as long, so
// that a path which became longer is seen as longer, not as one on which bytes wait, while a burst
// of bytes is not taken for a longer path.
class RttMeter {
 public:
  // The sequence to put into a heartbeat sent now.
  uint64_t Sent(absl::Time now);
  // An echo of `sequence` that the peer held for `delay`. Ignores sequences that were not sent,
  // were echoed before or are too old, and delays longer than the time passed.
  void Echo(absl::Time now, uint64_t sequence, absl::Duration delay);
  // A sample measured otherwise.
  void Sample(absl::Time now, absl::Duration rtt);

  absl::Duration smoothed() const { return smoothed_; }  // zero: none yet
  absl::Duration lowest() const;                         // zero: none yet

  static constexpr absl::Duration kLowestOf = absl::Seconds(15);

 private:
  std::array<absl::Time, 16> sent_;
  uint64_t newest_ = 0;
  uint64_t echoed_ = 0;
  absl::Duration smoothed_;
  absl::Time begin_ = absl::InfinitePast();                  // of the newest stretch of kLowestOf
  absl::Duration lowest_ = absl::InfiniteDuration();         // of it
  absl::Duration lowest_before_ = absl::InfiniteDuration();  // of the one before
};

// Doubling delays from 200 ms to 10 s, each up to a quarter shorter at random, the first of them
// zero.
class Backoff {
 public:
  absl::Duration Next(std::mt19937_64& random);
  void Reset() { failures_ = 0; }

 private:
  int failures_ = 0;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LINK_TIMING_H_
