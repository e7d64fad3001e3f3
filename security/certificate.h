// Certificate: what an X.509 certificate says, as plain values, and whether it chains to an
// authority.
//
// Pure functions over PEM text and a time; callable from any thread. Reading files is key_files.h,
// making certificates is pki.h, deciding who may connect is peer_policy.h.
#ifndef CAUSEWAY_SECURITY_CERTIFICATE_H_
#define CAUSEWAY_SECURITY_CERTIFICATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/identity.h"

namespace causeway::security {

// PEM larger than this is refused unread: a chain of a few EC certificates has a few KiB.
inline constexpr size_t kPemBytesMax = 256 * 1024;
inline constexpr size_t kChainCertificatesMax = 8;
inline constexpr size_t kAlternativeNamesMax = 64;

struct CertificateInfo {
  std::string subject;                 // RFC 2253, such as "CN=paris"
  std::string issuer;                  // RFC 2253
  std::string serial;                  // hexadecimal, lower case, no leading zeros
  std::vector<std::string> uris;       // URI alternative names, in the certificate's order
  std::vector<std::string> dns_names;  // DNS alternative names
  int64_t not_before_s = 0;            // Unix time
  int64_t not_after_s = 0;             // Unix time
  std::string spki_sha256;             // of the DER public key, 64 hexadecimal digits
  bool is_authority = false;           // basicConstraints CA:TRUE
};

// The first certificate in `pem`. InvalidArgument when there is none or it cannot be parsed.
absl::StatusOr<CertificateInfo> DescribeCertificate(const std::string& pem);

// The identity of a gateway's certificate: its one and only URI name. A certificate with none, or
// with a second URI, has no identity (InvalidArgument).
absl::StatusOr<Identity> CertificateIdentity(const CertificateInfo& info);

enum class CertificateUse { kServer, kClient };

// Whether the first certificate in `chain_pem` (the rest are intermediates) is valid at `now_s` for
// `use` and chains to one in `authority_pem`. FailedPrecondition says why not, with the date when
// time is the reason.
absl::Status VerifyChain(const std::string& chain_pem, const std::string& authority_pem,
                         CertificateUse use, int64_t now_s);

// Whether the private key belongs to the first certificate; both are PEM.
absl::Status CheckKeyMatches(const std::string& key_pem, const std::string& certificate_pem);

// "2030-01-31 12:00:00 UTC".
std::string FormatTime(int64_t unix_s);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_CERTIFICATE_H_
