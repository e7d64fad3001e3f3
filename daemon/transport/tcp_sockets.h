// The TCP connections below gRPC's streams: gRPC 1.51 neither sets their options nor shows their
// state, so they are found among this process's own descriptors by the address of the other end.
//
// Any thread; walks /proc/self/fd, a few microseconds a descriptor: at connection and for status,
// not for data. A descriptor that is closed meanwhile is skipped; one that is reused meanwhile
// gives a wrong count once.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TCP_SOCKETS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TCP_SOCKETS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace causeway::transport {

// Sums over live connections.
struct TcpTotals {
  int connections = 0;
  uint64_t segments_sent = 0;
  uint64_t segments_resent = 0;
  uint64_t bytes_unsent = 0;        // in the kernel, not yet on the wire
  uint64_t segments_delivered = 0;  // acknowledged, also out of order
  uint64_t bytes_delivered = 0;     // the same by the present size of a segment, which may change
  uint64_t bytes_acknowledged = 0;  // in order
  uint64_t bytes_received = 0;      // in order
  uint64_t bytes_in_flight = 0;
  int in_flight = 0;                   // connections with bytes in flight
  int backing_off = 0;                 // of these, those that repeated some at least twice in vain
  uint64_t delivery_bytes_per_s = 0;   // TCP's estimates, only those not limited by what we sent
  absl::Duration send_buffer_limited;  // how long each had no room for more; the longest
  absl::Duration receive_limited;      // how long the peer's window held each up; the longest
  absl::Duration rtt_min;        // the lowest of the smoothed round-trip times; zero: no connection
  absl::Duration rtt_in_flight;  // smoothed, their mean by bytes in flight; zero: none are

  void Add(const TcpTotals& other);
};

// All connections of this process, by the address of the other end as gRPC names it, such as
// "ipv4:10.0.0.1:7443" and "ipv6:%5Bfd00::1%5D:7443".
std::map<std::string, TcpTotals> ReadTcp();

// The newest ReadTcp: one walk for all peers. One thread at a time.
class TcpSnapshot {
 public:
  // Reads again what is older than `age`.
  void Refresh(absl::Time now, absl::Duration age);
  TcpTotals Of(const std::set<std::string>& remotes) const;

 private:
  std::map<std::string, TcpTotals> totals_;
  absl::Time taken_at_ = absl::InfinitePast();
};

// Lets each connection to one of `remotes` send no faster than so; 0: as fast as it likes.
void LimitRate(const std::set<std::string>& remotes, uint64_t bytes_per_s);

// Keeps at most about `bytes` unsent inside the kernel for each connection to `remote`, so that
// what waits waits where it can still be ordered, cancelled or sent over another lane. Returns how
// many connections it found.
int LimitUnsent(const std::string& remote, int bytes);

// The own ends' ports of the connections to `remotes`.
std::set<int> LocalPorts(const std::set<std::string>& remotes);
// Resets those of the connections to `remotes` whose own ends are at `ports`: the kernel forgets
// what they have not delivered, which it would else go on sending after their close.
void ResetConnections(const std::set<std::string>& remotes, const std::set<int>& ports);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TCP_SOCKETS_H_
