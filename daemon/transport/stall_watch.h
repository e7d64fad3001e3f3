// StallWatch: tells a line that carries nothing from one that is slow, jittery or lossy.
//
// By the kernel's counts over all connections of a link: a slow line acknowledges something; one
// that stands still lets every connection with bytes in flight repeat them in vain, at intervals
// that TCP doubles, so that it would try again long after the line is back. Plain logic: the caller
// passes times of a monotonic clock. Does not: look at sockets, or dial.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_STALL_WATCH_H_
#define CAUSEWAY_DAEMON_TRANSPORT_STALL_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"

namespace causeway::transport {

class StallWatch {
 public:
  enum class Verdict {
    kMoves,
    kQuiet,    // nothing moved for a while: a small message now shows whether anything does
    kStalled,  // that, too, did not get through
  };
  struct Sample {
    uint64_t segments_delivered = 0;
    uint64_t bytes_received = 0;
    int in_flight = 0;    // connections with bytes in flight
    int backing_off = 0;  // of these, those that repeated some at least twice in vain
    absl::Duration rtt;   // as long as it is when bytes wait on the way; zero: not known
  };

  // At least every kGapMax while something may be in flight; a longer gap is a pause of this
  // process, which says nothing of the line.
  Verdict Look(absl::Time now, const Sample& sample);
  // Something arrived.
  void Moved(absl::Time now);
  // The line stood still again although a fresh connection had been made: how often in a row. Each
  // doubles the patience.
  void SetRepeats(int repeats) { repeats_ = repeats; }

  static constexpr absl::Duration kGapMax = absl::Milliseconds(500);

 private:
  uint64_t delivered_ = 0;
  uint64_t received_ = 0;
  int repeats_ = 0;
  absl::Time looked_at_ = absl::InfinitePast();
  absl::Time moved_at_ = absl::InfinitePast();
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_STALL_WATCH_H_
