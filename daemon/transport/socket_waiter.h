// SocketWaiter: tells the poller thread when a local socket can be read or written.
//
// gRPC's completion queue waits for gRPC only, so one thread waits for the sockets of tunnels and
// hands each readiness over. The thread touches no bytes: reading and writing are the poller's,
// like all state. Poller thread only, but for the constructor and Stop.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_SOCKET_WAITER_H_
#define CAUSEWAY_DAEMON_TRANSPORT_SOCKET_WAITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "absl/status/status.h"
#include "daemon/transport/poller.h"

namespace causeway::transport {

class SocketWaiter {
 public:
  using Ready = std::function<void(uint32_t epoll_events)>;

  explicit SocketWaiter(Poller& poller) : poller_(poller) {}
  ~SocketWaiter() { Stop(); }
  // UNAVAILABLE: the process has no descriptor left.
  absl::Status Start();
  void Stop();  // joins the thread; not on the poller's

  // `ready` is called once for each Arm. The descriptor stays the caller's: Remove comes before its
  // close.
  uint64_t Add(int descriptor, Ready ready);
  void Arm(uint64_t id, uint32_t epoll_events);
  void Remove(uint64_t id);

 private:
  struct Socket {
    int descriptor;
    Ready ready;
  };

  void Run();

  Poller& poller_;
  int epoll_ = -1;
  int stop_ = -1;
  std::map<uint64_t, Socket> sockets_;  // poller thread
  uint64_t next_id_ = 1;                // 0 is `stop_`
  std::thread thread_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_SOCKET_WAITER_H_
