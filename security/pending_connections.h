// PendingConnections: where a refused connection came from, as far as it can be known.
//
// gRPC 1.51 tells a verifier nothing of the socket. This finds it from the other end: of the
// sockets this process accepted on its port, those whose peer has not been authenticated yet.
// Usually that is one address; when it is several, all are named. Diagnostics only. Thread-safe.
#ifndef CAUSEWAY_SECURITY_PENDING_CONNECTIONS_H_
#define CAUSEWAY_SECURITY_PENDING_CONNECTIONS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace causeway::security {

class PendingConnections {
 public:
  static constexpr size_t kDescriptorsMax = 4096;    // examined in one scan
  static constexpr size_t kAuthenticatedMax = 4096;  // remembered between scans
  static constexpr size_t kNamedMax = 4;             // addresses in one answer
  static constexpr int kScansPerSecondMax = 20;      // a flood must not buy descriptor scans

  // The port this gateway listens on; 0 (the start): nothing is known and Describe says so.
  void SetPort(uint16_t port) ABSL_LOCKS_EXCLUDED(mutex_);

  // `address` as grpc::ServerContextBase::peer() gives it, such as "ipv4:192.0.2.1:40000".
  void Authenticated(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);

  // "192.0.2.1:40000", "one of 192.0.2.1:40000, [2001:db8::1]:40001", or "unknown". `now_s` is Unix
  // time and limits the rate.
  std::string Describe(int64_t now_s) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::set<std::string> Scan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  uint16_t port_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> authenticated_ ABSL_GUARDED_BY(mutex_);
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int scans_ ABSL_GUARDED_BY(mutex_) = 0;  // within second_
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_PENDING_CONNECTIONS_H_
