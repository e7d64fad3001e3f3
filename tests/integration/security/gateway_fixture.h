// Gateways of flesh for handshake tests: certificates from security/pki.h in a directory, a real
// gRPC server that answers each call with the name of the cluster that called, and channels to it.
#ifndef CAUSEWAY_TESTS_INTEGRATION_SECURITY_GATEWAY_FIXTURE_H_
#define CAUSEWAY_TESTS_INTEGRATION_SECURITY_GATEWAY_FIXTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "security/credentials.h"
#include "security/pki.h"
#include "security/tls_observer.h"

namespace causeway::testing {

// Waits end with a failure after this; nothing is measured by it.
inline constexpr absl::Duration kPatience = absl::Seconds(30);

// TLS 1.3 for the process and its one observer. Call before anything else in every test.
class TlsEnvironment {
 public:
  static TlsEnvironment& Get();
  // Failures go to these credentials until the next call; null: to nobody.
  void SetReceiver(security::Credentials* receiver);

 private:
  TlsEnvironment();

  absl::Mutex mutex_;
  security::Credentials* receiver_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<security::TlsObserver> observer_;
};

// An authority and the files of its gateways, below a directory that goes away with the object.
class Site {
 public:
  explicit Site(const std::string& domain = "example.org");
  ~Site();

  // Writes <cluster>.pem and <cluster>.key, replacing what is there, valid from `begin_days` to
  // `end_days` from now.
  void Issue(const std::string& cluster, int begin_days = -1, int end_days = 30);
  security::CredentialFiles Files(const std::string& cluster) const;
  std::string File(const std::string& name) const { return directory_ + "/" + name; }

 private:
  std::string domain_;
  std::string directory_;
  security::KeyAndCertificate authority_;
};

// Rejections as they arrive, and waiting for one.
class RejectionLog {
 public:
  void Add(const security::HandshakeRejection& rejection);
  // The first that fits, also among past ones. Fails the test after kPatience.
  security::HandshakeRejection WaitFor(
      const std::function<bool(const security::HandshakeRejection&)>& fits);

 private:
  absl::Mutex mutex_;
  std::vector<security::HandshakeRejection> rejections_ ABSL_GUARDED_BY(mutex_);
};

class Gateway {
 public:
  // `clock_offset_s`: how far this gateway's own clock is off (OpenSSL's is not).
  Gateway(const Site& site, const std::string& cluster, std::vector<std::string> peers,
          int64_t clock_offset_s = 0);
  ~Gateway();

  void Serve();
  int port() const;
  std::string address() const;
  security::Credentials& credentials() { return *credentials_; }
  RejectionLog& rejections() { return *rejections_; }

  // A channel with a connection of its own to whoever listens at `address`, meant for `cluster`.
  std::shared_ptr<grpc::Channel> Dial(const std::string& cluster, const std::string& address);

 private:
  class Service;

  std::unique_ptr<RejectionLog> rejections_ = std::make_unique<RejectionLog>();
  std::unique_ptr<security::Credentials> credentials_;
  std::unique_ptr<Service> service_;
};

struct Answer {
  grpc::Status status;
  std::string text;  // the caller's cluster, as the server authenticated it
};

// One call; a connection that cannot be made fails it (no wait for ready).
Answer Call(const std::shared_ptr<grpc::Channel>& channel);

int64_t NowSeconds();

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_INTEGRATION_SECURITY_GATEWAY_FIXTURE_H_
