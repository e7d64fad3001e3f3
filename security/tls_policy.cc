// See tls_policy.h. `MinProtocol` alone was tried and has no effect: gRPC sets its own minimum on
// each context afterwards. Disabled protocols are options, which that call leaves alone.
#include "security/tls_policy.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "security/memory_file.h"
#include "security/openssl_handles.h"

namespace causeway::security {
namespace {

constexpr char kConfiguration[] =
    "openssl_conf = causeway\n"
    "[causeway]\n"
    "ssl_conf = ssl\n"
    "[ssl]\n"
    "system_default = tls\n"
    "[tls]\n"
    "MinProtocol = TLSv1.3\n"
    "Protocol = -SSLv3, -TLSv1, -TLSv1.1, -TLSv1.2\n";

using SettingsHandle = std::unique_ptr<OPENSSL_INIT_SETTINGS, OpensslDeleter<&OPENSSL_INIT_free>>;
using ContextHandle = std::unique_ptr<SSL_CTX, OpensslDeleter<&SSL_CTX_free>>;

}  // namespace

absl::Status RequireTls13() {
  absl::StatusOr<MemoryFile> file = MemoryFile::Create("causeway-openssl", kConfiguration, 1);
  if (!file.ok()) return file.status();
  const SettingsHandle settings(OPENSSL_INIT_new());
  if (settings == nullptr ||
      OPENSSL_INIT_set_config_filename(settings.get(), file->path().c_str()) != 1 ||
      OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, settings.get()) != 1) {
    return OpensslError(absl::StatusCode::kFailedPrecondition, "OpenSSL refuses its configuration");
  }
  return CheckTls13Only();
}

absl::Status CheckTls13Only() {
  const ContextHandle context(SSL_CTX_new(TLS_method()));
  if (context == nullptr) {
    return OpensslError(absl::StatusCode::kInternal, "cannot make a TLS context");
  }
  constexpr uint64_t kOlder =
      SSL_OP_NO_TLSv1_2 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_TLSv1 | SSL_OP_NO_SSLv3;
  if ((SSL_CTX_get_options(context.get()) & kOlder) == kOlder) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "TLS 1.2 would be accepted: OpenSSL was configured before the TLS policy was set. Nothing "
      "may "
      "use OpenSSL or gRPC before RequireTls13");
}

}  // namespace causeway::security
