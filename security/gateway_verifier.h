// GatewayVerifier: asks a PeerPolicy in each handshake, and reports what it refuses. Internal to
// security/.
//
// Runs on gRPC's threads after OpenSSL verified the chain, also when a session is resumed. Decides
// nothing itself.
#ifndef CAUSEWAY_SECURITY_GATEWAY_VERIFIER_H_
#define CAUSEWAY_SECURITY_GATEWAY_VERIFIER_H_

#include <grpcpp/security/tls_certificate_verifier.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "security/credentials.h"
#include "security/peer_policy.h"
#include "security/pending_connections.h"

namespace causeway::security {

// What all verifiers of one Credentials share. Held by shared_ptr: gRPC destroys a verifier
// whenever its last handshake lets go of it.
struct HandshakeDesk {
  HandshakeDesk(Identity self, std::vector<std::string> peers, std::function<int64_t()> now,
                std::function<void(const HandshakeRejection&)> rejected)
      : policy(std::move(self), std::move(peers), now),
        now_s(std::move(now)),
        on_rejection(std::move(rejected)) {}

  void Count(bool accepting, HandshakeResult result) {
    (accepting ? accepted_side : dialled_side)[static_cast<size_t>(result)].fetch_add(
        1, std::memory_order_relaxed);
  }

  // Counts, completes the address and reports.
  void Reject(HandshakeRejection rejection);

  PeerPolicy policy;
  const std::function<int64_t()> now_s;
  const std::function<void(const HandshakeRejection&)> on_rejection;
  PendingConnections pending;
  std::array<std::atomic<uint64_t>, kHandshakeResults> accepted_side = {};
  std::array<std::atomic<uint64_t>, kHandshakeResults> dialled_side = {};
};

class GatewayVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  // `dialled`: the cluster to be reached; empty on the accepting side.
  GatewayVerifier(std::shared_ptr<HandshakeDesk> desk, std::string dialled);

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> callback, grpc::Status* sync_status) override;
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* request) override;

 private:
  const std::shared_ptr<HandshakeDesk> desk_;
  const std::string dialled_;
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_GATEWAY_VERIFIER_H_
