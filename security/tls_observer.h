// TlsObserver: why OpenSSL refused a handshake, which gRPC 1.51 keeps to itself.
//
// OpenSSL writes or receives a fatal alert when it refuses; the observer taps those of every TLS
// context made after it. Diagnostics only: it changes no decision. The callback runs on gRPC's
// threads inside the handshake: thread-safe and quick, no calls back into TLS.
#ifndef CAUSEWAY_SECURITY_TLS_OBSERVER_H_
#define CAUSEWAY_SECURITY_TLS_OBSERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace causeway::security {

struct TlsFailure {
  bool accepting = false;  // this side was dialled
  bool by_peer = false;    // the other side refused
  std::string reason;      // the alert, and what certificate verification said
};

class TlsObserver {
 public:
  using Callback = std::function<void(const TlsFailure&)>;

  // One for the process, made before the first credentials and destroyed after the last TLS
  // connection is gone, since contexts keep a pointer to it.
  static absl::StatusOr<std::unique_ptr<TlsObserver>> Create(Callback callback);
  ~TlsObserver();
  TlsObserver(const TlsObserver&) = delete;
  TlsObserver& operator=(const TlsObserver&) = delete;

  void Report(const TlsFailure& failure) const { callback_(failure); }

 private:
  explicit TlsObserver(Callback callback) : callback_(std::move(callback)) {}

  const Callback callback_;
  int index_ = -1;
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_TLS_OBSERVER_H_
