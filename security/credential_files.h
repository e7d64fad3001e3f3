// Credential files: this gateway's certificate, key and authority as the configuration names them,
// read and validated as a whole before anything uses them.
//
// Blocking file I/O; any thread; the caller passes the time. Also what `check-config` calls.
#ifndef CAUSEWAY_SECURITY_CREDENTIAL_FILES_H_
#define CAUSEWAY_SECURITY_CREDENTIAL_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "security/certificate.h"
#include "security/identity.h"

namespace causeway::security {

struct CredentialFiles {
  std::string certificate;  // path; PEM, intermediates after the gateway's own
  std::string key;          // path; PEM, mode 0600, owned by the daemon's user
  std::string authority;    // path; PEM, one or more authorities (two while one replaces the other)
};

struct CredentialMaterial {
  std::string certificate_pem;
  std::string key_pem;
  std::string authority_pem;
  CertificateInfo certificate;
  std::vector<CertificateInfo> authorities;
  Identity identity;
};

// Checks everything that would otherwise surface as failing handshakes: permissions and owner, that
// the key belongs to the certificate, the chain for both uses, the dates, that the certificate's
// one identity is `cluster`, and that the authority file holds authorities only (gRPC trusts
// whatever is in it). Each refusal names the file and the remedy.
absl::StatusOr<CredentialMaterial> LoadCredentialFiles(const CredentialFiles& files,
                                                       const std::string& cluster, int64_t now_s);

// What an operator should know although all is well: a certificate past half its life, an authority
// that ends within kAuthorityWarningDays. One sentence each, with the date and the remedy.
inline constexpr int kAuthorityWarningDays = 90;
std::vector<std::string> ExpiryWarnings(const CredentialMaterial& material, int64_t now_s);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_CREDENTIAL_FILES_H_
