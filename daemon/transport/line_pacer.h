// LinePacer: how fast all connections of a link together may send, so that they fill the line
// without a queue in front of it.
//
// Each connection's congestion control finds what the line carries by itself. Several together
// believe in more than there is and keep a round trip's worth of packets standing in the
// bottleneck, behind which every control message waits. So their sum is held at what they were seen
// to deliver: nothing is held back until that ceases to grow; then more is tried for a while now
// and again, which each connection's own probing fits into, and a queue that was made is drained.
// Where packets are lost for no queue's sake, or too few lanes share the line to build one, it does
// not interfere, nor with the last round trips of a transfer: their queue goes by itself soon, and
// what a connection is held at it believes in for many round trips more. Plain logic: the caller
// passes monotonic times; one thread at a time.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LINE_PACER_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LINE_PACER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace causeway::transport {

class LinePacer {
 public:
  // Of the link's live connections, summed, since each began.
  struct Sight {
    int connections = 0;
    uint64_t bytes_delivered = 0;
    uint64_t segments_sent = 0;
    uint64_t segments_resent = 0;
    absl::Duration rtt;          // smoothed, of what is in flight; zero: nothing is
    absl::Duration rtt_min;      // of the path
    uint64_t bytes_waiting = 0;  // for a connection
  };

  // The line waited for chunks: what it delivers now says nothing of what it could.
  void Idle() { idle_ = true; }
  // To be called often while chunks wait; acts once a round trip.
  void Look(absl::Time now, const Sight& sight);

  // What may be sent in all; 0: as much as the connections like.
  double bytes_per_s() const;

 private:
  enum class Phase { kFill, kCruise, kProbe, kDrain };
  struct Window {
    double bytes = 0;
    double seconds = 0;
  };

  void Begin(Phase phase);
  void Drain(double queue);
  void EndDrain(const Window& window, double queue);
  void Step(const Window& window, double seen_queue);
  void Remember(const Window& window);
  void Forget();

  static constexpr size_t kMeanWindows = 4;
  static constexpr size_t kMeansKept = 20;

  Phase phase_ = Phase::kFill;
  int windows_ = 0;        // of this phase
  int drain_windows_ = 0;  // that the queue takes to go
  double drain_from_ = 0;  // what it was then
  double others_ = 0;  // round trips of queue, or of a longer path, that draining does not shorten
  bool idle_ = false;
  bool lossy_ = false;
  bool ends_soon_ = false;                         // what waits is sent within a few round trips
  absl::Time begin_ = absl::InfinitePast();        // of the window
  absl::Time measured_at_ = absl::InfinitePast();  // the newest window that counted
  Sight before_;                                   // at its begin
  std::array<Window, kMeanWindows> newest_{};      // as a ring
  std::array<double, kMeansKept> means_{};         // bytes/s of so many windows, as a ring
  uint64_t seen_ = 0;                              // windows
  double best_ = 0;                                // of the means
  double best_before_ = 0;                         // when the phase began
  double loss_ = 0;                                // share of segments, smoothed
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LINE_PACER_H_
