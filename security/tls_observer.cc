// See tls_observer.h. gRPC makes its own contexts, so the tap is placed when OpenSSL constructs any
// context: an extra-data index has a constructor callback. Parsing gRPC's log lines was rejected
// (their words are no interface, and they say neither "expired" nor "unknown authority"); the info
// callback too (gRPC replaces it).
#include "security/tls_observer.h"

#include <openssl/ssl.h>

#include "security/openssl_handles.h"

namespace causeway::security {
namespace {

constexpr int kFatalLevel = 2;  // RFC 8446, section 6: AlertLevel
constexpr size_t kAlertBytes = 2;

// SSL_CTX_set_msg_callback's type: every record passes here, so the first test is the cheapest.
void OnMessage(int sent, int /*version*/, int content_type, const void* bytes, size_t size,
               SSL* ssl, void* observer) {
  if (content_type != SSL3_RT_ALERT || size != kAlertBytes || observer == nullptr) return;
  const unsigned char* alert = static_cast<const unsigned char*>(bytes);
  if (alert[0] != kFatalLevel) return;
  TlsFailure failure;
  failure.accepting = SSL_is_server(ssl) == 1;
  failure.by_peer = sent == 0;
  // OpenSSL 3.0 has no words for this one.
  failure.reason = alert[1] == SSL_AD_CERTIFICATE_REQUIRED ? "certificate required"
                                                           : SSL_alert_desc_string_long(alert[1]);
  const long verified = SSL_get_verify_result(ssl);  // NOLINT: OpenSSL's type
  if (!failure.by_peer && verified != X509_V_OK) {
    failure.reason += std::string(" (") + X509_verify_cert_error_string(verified) + ")";
  }
  if (alert[1] == SSL_AD_UNKNOWN_CA) {
    failure.reason += "; both gateways need certificates of one authority: compare their ca.pem";
  }
  static_cast<const TlsObserver*>(observer)->Report(failure);
}

// CRYPTO_EX_new's type.
void OnNewContext(void* parent, void* /*data*/, CRYPTO_EX_DATA* /*all*/, int /*index*/,
                  long /*number*/, void* observer) {  // NOLINT: OpenSSL's type
  SSL_CTX* context = static_cast<SSL_CTX*>(parent);
  SSL_CTX_set_msg_callback(context, &OnMessage);
  SSL_CTX_set_msg_callback_arg(context, observer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsObserver>> TlsObserver::Create(Callback callback) {
  std::unique_ptr<TlsObserver> observer(new TlsObserver(std::move(callback)));
  observer->index_ = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, observer.get(),
                                             &OnNewContext, nullptr, nullptr);
  if (observer->index_ < 0) {
    return OpensslError(absl::StatusCode::kInternal, "cannot observe TLS handshakes");
  }
  return observer;
}

TlsObserver::~TlsObserver() {
  if (index_ >= 0) CRYPTO_free_ex_index(CRYPTO_EX_INDEX_SSL_CTX, index_);
}

}  // namespace causeway::security
