// Credentials: what gRPC needs to speak mutual TLS as this gateway and with its peers only.
//
// Thread-safe. Owns the loaded material and the memory files that gRPC watches, so it is destroyed
// after the last server and channel made from it. RequireTls13 (tls_policy.h) comes first, before
// any of this. Does not log: rejections go to a callback. Does not know runs: which cluster may
// join which run is decided by the daemon.
#ifndef CAUSEWAY_SECURITY_CREDENTIALS_H_
#define CAUSEWAY_SECURITY_CREDENTIALS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/credential_files.h"
#include "security/peer_policy.h"
#include "security/tls_observer.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerContextBase;
class ServerCredentials;
}  // namespace grpc

namespace causeway::security {

struct HandshakeRejection {
  bool accepting = false;  // this side was dialled
  HandshakeResult result = HandshakeResult::kTls;
  std::string peer_address;  // accepting: as PendingConnections gives it; dialling: the host
  std::string dialled;       // the cluster dialled; empty when accepting
  std::string identity;      // the URI that the certificate presented; empty when unknown
  std::string serial;        // of the certificate; empty when unknown
  std::string spki_sha256;   // of its key, ready for a deny list; empty when unknown
  std::string reason;
};

// Who is behind a connection, from its verified certificate.
struct AuthenticatedPeer {
  std::string cluster;
  std::string address;          // as gRPC names it
  CertificateInfo certificate;  // the connection should be replaced before its not_after_s
};

// Handshakes judged so far on both sides, by HandshakeResult.
struct HandshakeCounts {
  uint64_t accepting[kHandshakeResults] = {};
  uint64_t dialling[kHandshakeResults] = {};
};

class Credentials {
 public:
  struct Options {
    std::string cluster;  // this gateway's
    std::string domain;   // the configured trust domain; empty: whichever the certificate says
    CredentialFiles files;
    std::vector<std::string> peers;  // clusters that may connect and be dialled
    DenyList deny;
    std::function<int64_t()> now_s;  // Unix time; called on gRPC's threads
    // Called on gRPC's threads, inside the handshake: thread-safe and quick. May be empty.
    std::function<void(const HandshakeRejection&)> on_rejection;
  };

  // Reads and checks every file (credential_files.h). Each error names the file and the remedy.
  static absl::StatusOr<std::unique_ptr<Credentials>> Load(Options options);
  ~Credentials();

  // For ServerBuilder::AddListeningPort. The same object at each call: gRPC 1.51 aborts when
  // options are used twice.
  std::shared_ptr<grpc::ServerCredentials> server() const;

  // For channels to `cluster`; the same object for all of its lanes. NotFound: no configured peer.
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> channel(const std::string& cluster);

  // The cluster behind a call on the server; to be compared with what its messages claim. Judges
  // anew, so that a peer removed or denied since its handshake is refused: PermissionDenied.
  absl::StatusOr<AuthenticatedPeer> Authenticate(const grpc::ServerContextBase& context);
  // The same where only the authentication is at hand. `address`, as
  // grpc::ServerContextBase::peer() gives it, keeps the connection out of the candidates for later
  // rejections; empty: unknown.
  absl::StatusOr<AuthenticatedPeer> Authenticate(const grpc::AuthContext& auth,
                                                 const std::string& address);

  // Whether a peer authenticated before would still be: for closing live lanes after SetDenyList,
  // SetPeers, or past its certificate's end.
  absl::Status CheckStillAllowed(const AuthenticatedPeer& peer) const;

  // Reads the files anew. On any error nothing changes; else new handshakes use them within
  // kReloadSeconds, and live connections keep what they began with. The identity may not change.
  absl::Status Reload();
  static constexpr unsigned kReloadSeconds = 1;

  void SetPeers(std::vector<std::string> peers);
  absl::Status SetDenyList(DenyList list);

  // The port that the server got, for naming the address of rejected connections.
  void SetListeningPort(uint16_t port);

  // Takes what a TlsObserver saw into the counts, and to on_rejection.
  void NoteTlsFailure(const TlsFailure& failure);

  Identity identity() const;
  CertificateInfo certificate() const;        // in use now; its not_after_s is a metric
  std::vector<std::string> Warnings() const;  // ExpiryWarnings, now
  HandshakeCounts counts() const;

 private:
  struct State;
  explicit Credentials(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_CREDENTIALS_H_
