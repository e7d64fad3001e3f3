// LaneCount: how many lanes a link wants, from what one connection can hold in flight and what the
// path carries.
//
// Plain logic, one thread at a time. Lanes are only added while a link lives: an idle lane costs a
// socket and keeps its window for the next round. Rejected: growing by trial and watching the rate,
// which mistakes every change of the path for its own doing; and chunks on one lane where one is
// enough, which is not paced like several: rounds took as long, and sent a sixth of it twice.
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
  // agree.
  bool Look(const DirectionRate& send, absl::Duration rtt);

  int wanted() const { return wanted_; }
  int most() const { return most_; }  // may ever want
  // For people, such as "6: 119.2 MB/s over 100 ms, 2.9 MB a connection".
  const std::string& reason() const { return reason_; }

 private:
  const bool automatic_;
  const int most_;
  const double connection_bytes_;
  int wanted_;
  bool more_before_ = false;
  std::string reason_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LANE_COUNT_H_
