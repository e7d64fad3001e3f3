// See certificate.h. Chain building is OpenSSL's; this file asks it the strict questions (no
// partial chains, the purpose checked, the caller's clock) and words the answers.
#include "security/certificate.h"

#include <openssl/err.h>

#include <cstdio>
#include <ctime>

#include "security/certificate_parsing.h"

namespace causeway::security {
namespace {

absl::Status ChainFault(X509_STORE_CTX* context) {
  const int error = X509_STORE_CTX_get_error(context);
  std::string what = X509_verify_cert_error_string(error);
  X509* culprit = X509_STORE_CTX_get_current_cert(context);
  absl::StatusOr<CertificateInfo> info = absl::UnknownError("no certificate");
  if (culprit != nullptr) info = Describe(culprit);
  if (info.ok()) {
    what += " (certificate " + info->subject + ", issued by " + info->issuer;
    if (error == X509_V_ERR_CERT_HAS_EXPIRED)
      what += ", valid until " + FormatTime(info->not_after_s);
    if (error == X509_V_ERR_CERT_NOT_YET_VALID) {
      what += ", valid from " + FormatTime(info->not_before_s) + ": is this host's clock right?";
    }
    what += ")";
  }
  ERR_clear_error();
  return absl::FailedPreconditionError(what);
}

// Frees the stack alone: its certificates are borrowed.
void FreeStack(STACK_OF(X509) * stack) { sk_X509_free(stack); }
using StackHandle = std::unique_ptr<STACK_OF(X509), OpensslDeleter<&FreeStack>>;

}  // namespace

absl::StatusOr<CertificateInfo> DescribeCertificate(const std::string& pem) {
  absl::StatusOr<std::vector<CertificateHandle>> certificates = ParseCertificates(pem);
  if (!certificates.ok()) return certificates.status();
  return Describe(certificates->front().get());
}

absl::StatusOr<Identity> CertificateIdentity(const CertificateInfo& info) {
  if (info.uris.size() == 1) return ParseIdentity(info.uris.front());
  return absl::InvalidArgumentError(
      "certificate " + info.subject + " has " + std::to_string(info.uris.size()) +
      " URI names; a gateway's certificate has exactly one, spiffe://DOMAIN/gateway/CLUSTER");
}

absl::Status VerifyChain(const std::string& chain_pem, const std::string& authority_pem,
                         CertificateUse use, int64_t now_s) {
  absl::StatusOr<std::vector<CertificateHandle>> chain = ParseCertificates(chain_pem);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::vector<CertificateHandle>> anchors = ParseCertificates(authority_pem);
  if (!anchors.ok()) return anchors.status();
  const StoreHandle store(X509_STORE_new());
  for (const CertificateHandle& anchor : *anchors) X509_STORE_add_cert(store.get(), anchor.get());
  const StackHandle intermediates(sk_X509_new_null());
  for (size_t i = 1; i < chain->size(); ++i) sk_X509_push(intermediates.get(), (*chain)[i].get());
  const StoreContextHandle context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), chain->front().get(), intermediates.get()) !=
      1) {
    return OpensslError(absl::StatusCode::kInternal, "cannot set up a chain check");
  }
  X509_STORE_CTX_set_purpose(context.get(), use == CertificateUse::kServer
                                                ? X509_PURPOSE_SSL_SERVER
                                                : X509_PURPOSE_SSL_CLIENT);
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(now_s));
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  return ChainFault(context.get());
}

absl::Status CheckKeyMatches(const std::string& key_pem, const std::string& certificate_pem) {
  absl::StatusOr<std::vector<CertificateHandle>> chain = ParseCertificates(certificate_pem);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<KeyHandle> key = ParsePrivateKey(key_pem);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(chain->front().get(), key->get()) == 1) return absl::OkStatus();
  return OpensslError(absl::StatusCode::kFailedPrecondition,
                      "the private key does not belong to the certificate");
}

std::string FormatTime(int64_t unix_s) {
  const time_t time = static_cast<time_t>(unix_s);
  std::tm broken = {};
  if (gmtime_r(&time, &broken) == nullptr) return std::to_string(unix_s) + " s";
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &broken);
  return text;
}

}  // namespace causeway::security
