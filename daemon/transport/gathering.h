// Gathering: how long the poller may let what comes in add up before it serves it all at once.
//
// Served packet by packet, a paced line wakes the thread every few kilobytes, which costs more than
// the bytes themselves. So while bulk comes in the poller sleeps for a moment between two looks,
// too short against the round trip for anybody to notice. Not where as much goes out: gRPC then
// hands its writes to other threads, whose waking costs what was won. Plain logic: no clock, any
// thread.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_GATHERING_H_
#define CAUSEWAY_DAEMON_TRANSPORT_GATHERING_H_

#include "absl/time/time.h"

namespace causeway::transport {

// Of all live links together.
struct Traffic {
  double bytes_received_per_s = 0;  // of chunks, like those sent
  double bytes_sent_per_s = 0;
  int connections = 0;
  absl::Duration rtt_min = absl::InfiniteDuration();  // of the nearest peer; zero: not known
};

// Zero: serve everything as it comes.
absl::Duration GatherTime(const Traffic& traffic);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_GATHERING_H_
