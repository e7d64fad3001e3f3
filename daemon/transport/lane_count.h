// LaneCount: how many lanes a link wants, from what one connection can hold in flight and what the
// path carries.
//
// How many of them carry chunks is another number: several BBR connections keep a queue of a whole
// round trip in the bottleneck, one keeps none, so where one is enough the others stay warm and
// wait. Plain logic, one thread at a time. Lanes are only added while a link lives: an idle lane
// costs a socket and keeps its window for the next round. Rejected: growing by trial and watching
// the rate, which mistakes every change of the path for its own doing.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LANE_COUNT_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LANE_COUNT_H_

#include <cstdint>
#include <string>

#include "daemon/transport/rates.h"

namespace causeway::transport {

// What the host lets a connection keep unacknowledged: the largest of `tcp_wmem` as in
// /proc/sys/net/ipv4, which a sandbox may hide; then the kernel's own default.
uint64_t SendBufferBytesMax(const std::string& tcp_wmem_path = "/proc/sys/net/ipv4/tcp_wmem");

class LaneCount {
 public:
  // `fixed`: as configured; 0: from measurements, up to `most`.
  LaneCount(int fixed, int most, uint64_t send_buffer_bytes);

  // Looks at the rates, once a second or so. True: it wants more now. Two looks in a row must
  // agree. `paced`: all connections are under BBR, which alone fills a line without a queue or
  // despite loss.
  bool Look(const DirectionRate& send, absl::Duration rtt, bool paced);

  int wanted() const { return wanted_; }
  int in_use() const { return in_use_; }  // of those, as long as they make progress
  int most() const { return most_; }      // may ever want
  // For people, such as "6: 119.2 MB/s over 100 ms, 2.9 MB a connection".
  const std::string& reason() const { return reason_; }

 private:
  const bool automatic_;
  const int most_;
  const double connection_bytes_;
  int wanted_;
  int in_use_;
  int enough_before_ = 0;
  bool more_before_ = false;
  std::string reason_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LANE_COUNT_H_
