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
  std::vector<uint64_t> Connections();  // ids of those open now
  uint64_t Bytes(uint64_t id);          // forwarded by one of them, both ways
  // Resets one connection; false if it is gone already.
  bool Cut(uint64_t id);
  // Carries nothing more on one connection, or on any (new ones included), without closing
  // anything.
  void Freeze(uint64_t id);
  void FreezeAll(bool frozen) { frozen_ = frozen; }
  // New connections are closed at once.
  void Refuse(bool refuse) { refuse_ = refuse; }

 private:
  struct Connection;

  Connection* Find(uint64_t id);
  void Run();
  void Accept();
  bool Serve(Connection& connection, short client_events, short server_events);

  int listener_ = -1;
  int port_ = 0;
  const int target_port_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> refuse_{false};
  absl::Mutex mutex_;
  uint64_t next_id_ = 1;                                  // guarded by mutex_
  std::vector<std::unique_ptr<Connection>> connections_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TCP_PROXY_H_
