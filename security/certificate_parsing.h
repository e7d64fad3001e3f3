// PEM to OpenSSL objects, with the limits of certificate.h. Internal to security/.
#ifndef CAUSEWAY_SECURITY_CERTIFICATE_PARSING_H_
#define CAUSEWAY_SECURITY_CERTIFICATE_PARSING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "security/certificate.h"
#include "security/openssl_handles.h"

namespace causeway::security {

// Every certificate in `pem`: at least one, kChainCertificatesMax at most.
absl::StatusOr<std::vector<CertificateHandle>> ParseCertificates(const std::string& pem);

// The unencrypted private key in `pem`. Encrypted keys are refused: no one is there to type a
// passphrase when a daemon starts.
absl::StatusOr<KeyHandle> ParsePrivateKey(const std::string& pem);

absl::StatusOr<CertificateInfo> Describe(X509* certificate);

// URI and DNS names of a subjectAltName; text with control characters or NUL is refused, which
// also closes the old trick of a NUL inside a name.
absl::Status ReadAlternativeNames(const GENERAL_NAMES& names, std::vector<std::string>* uris,
                                  std::vector<std::string>* dns_names);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_CERTIFICATE_PARSING_H_
