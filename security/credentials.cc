// See credentials.h. Reload: a static provider cannot swap, and a file watcher on the operator's
// files would pick up a half-written pair and then refuse every handshake. So gRPC watches two
// memory files of ours, which change only after the new files were validated as a whole; key and
// certificates share one of them, and so change together.
#include "security/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "security/gateway_verifier.h"
#include "security/memory_file.h"

namespace causeway::security {
namespace {

using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::FileWatcherCertificateProvider;

std::string IdentityPem(const CredentialMaterial& material) {
  const bool ended = !material.key_pem.empty() && material.key_pem.back() == '\n';
  return material.key_pem + (ended ? "" : "\n") + material.certificate_pem;
}

void Prepare(grpc::experimental::TlsCredentialsOptions* options,
             const std::shared_ptr<HandshakeDesk>& desk, const std::string& dialled) {
  options->watch_root_certs();
  options->watch_identity_key_cert_pairs();
  options->set_certificate_verifier(
      ExternalCertificateVerifier::Create<GatewayVerifier>(desk, dialled));
  options->set_check_call_host(false);  // identities are clusters, not host names
}

std::string OnlyValue(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  if (values.size() != 1) return "";
  return std::string(values.front().data(), values.front().size());
}

}  // namespace

struct Credentials::State {
  State(Options given, CredentialMaterial loaded, MemoryFile identity, MemoryFile authority,
        int64_t now_s)
      : options(std::move(given)),
        desk(std::make_shared<HandshakeDesk>(loaded.identity, options.peers, options.now_s,
                                             options.on_rejection)),
        identity_file(std::move(identity)),
        authority_file(std::move(authority)),
        swapped_s(now_s),
        material(std::move(loaded)) {}

  const Options options;
  const std::shared_ptr<HandshakeDesk> desk;
  mutable absl::Mutex mutex;
  // Before the provider, which reads them on a thread of its own until it is destroyed.
  MemoryFile identity_file ABSL_GUARDED_BY(mutex);
  MemoryFile authority_file ABSL_GUARDED_BY(mutex);
  int64_t swapped_s ABSL_GUARDED_BY(mutex);  // modification time of the memory files
  CredentialMaterial material ABSL_GUARDED_BY(mutex);
  std::shared_ptr<FileWatcherCertificateProvider> provider;  // shared with gRPC's credentials
  std::shared_ptr<grpc::ServerCredentials> server;
  std::map<std::string, std::shared_ptr<grpc::ChannelCredentials>> channels ABSL_GUARDED_BY(mutex);
};

Credentials::Credentials(std::unique_ptr<State> state) : state_(std::move(state)) {}

Credentials::~Credentials() = default;

absl::StatusOr<std::unique_ptr<Credentials>> Credentials::Load(Options options) {
  if (absl::Status status = ValidateDenyList(options.deny); !status.ok()) return status;
  const int64_t now_s = options.now_s();
  absl::StatusOr<CredentialMaterial> material =
      LoadCredentialFiles(options.files, options.cluster, now_s);
  if (!material.ok()) return material.status();
  if (!options.domain.empty() && options.domain != material->identity.domain) {
    return absl::FailedPreconditionError(
        options.files.certificate + ": the certificate is of domain " + material->identity.domain +
        ", but this gateway is configured for " + options.domain);
  }
  absl::StatusOr<MemoryFile> identity =
      MemoryFile::Create("causeway-identity", IdentityPem(*material), now_s);
  if (!identity.ok()) return identity.status();
  absl::StatusOr<MemoryFile> authority =
      MemoryFile::Create("causeway-authority", material->authority_pem, now_s);
  if (!authority.ok()) return authority.status();
  const std::string identity_path = identity->path(), authority_path = authority->path();
  auto state = std::make_unique<State>(std::move(options), *std::move(material),
                                       *std::move(identity), *std::move(authority), now_s);
  state->desk->policy.SetDenyList(state->options.deny);
  state->provider = std::make_shared<FileWatcherCertificateProvider>(
      identity_path, identity_path, authority_path, kReloadSeconds);
  grpc::experimental::TlsServerCredentialsOptions server(state->provider);
  server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  Prepare(&server, state->desk, "");
  state->server = grpc::experimental::TlsServerCredentials(server);
  if (state->server == nullptr) return absl::InternalError("gRPC refuses the TLS options");
  return std::unique_ptr<Credentials>(new Credentials(std::move(state)));
}

std::shared_ptr<grpc::ServerCredentials> Credentials::server() const { return state_->server; }

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials::channel(
    const std::string& cluster) {
  if (!state_->desk->policy.IsPeer(cluster)) {
    return absl::NotFoundError("cluster " + cluster + " is not among the configured peers");
  }
  const absl::MutexLock lock(&state_->mutex);
  std::shared_ptr<grpc::ChannelCredentials>& made = state_->channels[cluster];
  if (made != nullptr) return made;
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(state_->provider);
  Prepare(&options, state_->desk, cluster);
  made = grpc::experimental::TlsCredentials(options);
  if (made == nullptr) return absl::InternalError("gRPC refuses the TLS options");
  return made;
}

absl::StatusOr<AuthenticatedPeer> Credentials::Authenticate(
    const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) {
    return absl::UnauthenticatedError("the connection from " + context.peer() +
                                      " is not authenticated");
  }
  return Authenticate(*auth, context.peer());
}

absl::StatusOr<AuthenticatedPeer> Credentials::Authenticate(const grpc::AuthContext& auth,
                                                            const std::string& address) {
  if (!auth.IsPeerAuthenticated()) {
    return absl::UnauthenticatedError("the connection from " + address + " is not authenticated");
  }
  const Verdict verdict =
      state_->desk->policy.Judge(OnlyValue(auth, GRPC_X509_PEM_CERT_PROPERTY_NAME), "");
  if (verdict.result != HandshakeResult::kAccepted) {
    return absl::PermissionDeniedError(verdict.reason);
  }
  if (!address.empty()) state_->desk->pending.Authenticated(address);
  return AuthenticatedPeer{verdict.cluster, address, verdict.certificate};
}

absl::Status Credentials::CheckStillAllowed(const AuthenticatedPeer& peer) const {
  const Verdict verdict = state_->desk->policy.Judge(peer.certificate, "");
  if (verdict.result == HandshakeResult::kAccepted) return absl::OkStatus();
  return absl::PermissionDeniedError(verdict.reason);
}

absl::Status Credentials::Reload() {
  const int64_t now_s = state_->options.now_s();
  absl::StatusOr<CredentialMaterial> fresh =
      LoadCredentialFiles(state_->options.files, state_->options.cluster, now_s);
  if (!fresh.ok()) return fresh.status();
  if (!(fresh->identity == identity())) {
    return absl::FailedPreconditionError(
        "the new certificate is " + FormatIdentity(fresh->identity) + ", this gateway is " +
        FormatIdentity(identity()) + "; another identity needs a restart");
  }
  const absl::MutexLock lock(&state_->mutex);
  state_->swapped_s = std::max(now_s, state_->swapped_s + 1);  // never the same twice
  // Authorities first: while both are trusted, an old and a new certificate are good with either.
  absl::Status status = state_->authority_file.Replace(fresh->authority_pem, state_->swapped_s);
  if (status.ok()) {
    status = state_->identity_file.Replace(IdentityPem(*fresh), state_->swapped_s);
  }
  if (status.ok()) state_->material = *std::move(fresh);
  return status;
}

void Credentials::SetPeers(std::vector<std::string> peers) {
  state_->desk->policy.SetPeers(std::move(peers));
}

absl::Status Credentials::SetDenyList(DenyList list) {
  if (absl::Status status = ValidateDenyList(list); !status.ok()) return status;
  state_->desk->policy.SetDenyList(std::move(list));
  return absl::OkStatus();
}

void Credentials::SetListeningPort(uint16_t port) { state_->desk->pending.SetPort(port); }

void Credentials::NoteTlsFailure(const TlsFailure& failure) {
  HandshakeRejection rejection;
  rejection.accepting = failure.accepting;
  rejection.reason = std::string(failure.by_peer ? "the peer refused: " : "") + failure.reason;
  state_->desk->Reject(std::move(rejection));
}

Identity Credentials::identity() const { return state_->desk->policy.self(); }

CertificateInfo Credentials::certificate() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->material.certificate;
}

std::vector<std::string> Credentials::Warnings() const {
  const absl::MutexLock lock(&state_->mutex);
  return ExpiryWarnings(state_->material, state_->options.now_s());
}

HandshakeCounts Credentials::counts() const {
  HandshakeCounts counts;
  for (size_t i = 0; i < kHandshakeResults; ++i) {
    counts.accepting[i] = state_->desk->accepted_side[i].load(std::memory_order_relaxed);
    counts.dialling[i] = state_->desk->dialled_side[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace causeway::security
