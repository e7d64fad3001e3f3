// See gateway_verifier.h.
#include "security/gateway_verifier.h"

#include <utility>

namespace causeway::security {

void HandshakeDesk::Reject(HandshakeRejection rejection) {
  Count(rejection.accepting, rejection.result);
  if (!on_rejection) return;
  if (rejection.accepting) rejection.peer_address = pending.Describe(now_s());
  on_rejection(rejection);
}

GatewayVerifier::GatewayVerifier(std::shared_ptr<HandshakeDesk> desk, std::string dialled)
    : desk_(std::move(desk)), dialled_(std::move(dialled)) {}

bool GatewayVerifier::Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
                             std::function<void(grpc::Status)> /*callback*/,
                             grpc::Status* sync_status) {
  constexpr bool kDecided = true;
  const bool accepting = dialled_.empty();
  const grpc::string_ref pem = request->peer_cert();
  const Verdict verdict = desk_->policy.Judge(std::string(pem.data(), pem.size()), dialled_);
  if (verdict.result == HandshakeResult::kAccepted) {
    desk_->Count(accepting, verdict.result);
    *sync_status = grpc::Status::OK;
    return kDecided;
  }
  HandshakeRejection rejection;
  rejection.accepting = accepting;
  rejection.result = verdict.result;
  rejection.dialled = dialled_;
  rejection.identity = verdict.identity;
  rejection.serial = verdict.certificate.serial;
  rejection.spki_sha256 = verdict.certificate.spki_sha256;
  rejection.reason = verdict.reason;
  if (!accepting) {
    const grpc::string_ref target = request->target_name();
    rejection.peer_address = std::string(target.data(), target.size());
  }
  desk_->Reject(std::move(rejection));
  *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, verdict.reason);
  return kDecided;
}

// Nothing is ever pending: Verify decides at once.
void GatewayVerifier::Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) {}

}  // namespace causeway::security
