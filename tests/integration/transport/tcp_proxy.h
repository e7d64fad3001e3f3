// TcpProxy: stands between two gateways on loopback, so that a test can cut single connections or
// swallow what they carry. One thread.
#ifndef CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TCP_PROXY_H_
#define CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TCP_PROXY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace causeway::transport {

class TcpProxy {
 public:
  // Forwards connections to 127.0.0.1:`port`.
  explicit TcpProxy(int port);
  ~TcpProxy();

  std::string address() const;
  int connections();  // open now, in order of arrival
  uint64_t accepted() const { return accepted_; }
  uint64_t bytes(int index);  // forwarded by one of them, both ways
  // Resets the connection that is `index`-th now; false if there is none.
  bool Cut(int index);
  void CutAll();
  // Carries nothing more on one connection, or on any (new ones included), without closing
  // anything.
  void Freeze(int index);
  void FreezeAll(bool frozen) { frozen_ = frozen; }
  // New connections are closed at once.
  void Refuse(bool refuse) { refuse_ = refuse; }

 private:
  struct Connection;

  void Run();
  void Accept();
  bool Serve(Connection& connection, short client_events, short server_events);

  int listener_ = -1;
  int port_ = 0;
  const int target_port_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> refuse_{false};
  std::atomic<uint64_t> accepted_{0};
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> connections_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TCP_PROXY_H_
