// PKI: a certificate authority for one trust domain and the certificates of its gateways, made with
// OpenSSL: ECDSA P-256, SHA-256.
//
// Pure functions over PEM text and a time (randomness is OpenSSL's own, as for any key); callable
// from any thread. Files and the operator's command are daemon/cli/pki.
#ifndef CAUSEWAY_SECURITY_PKI_H_
#define CAUSEWAY_SECURITY_PKI_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/identity.h"

namespace causeway::security {

inline constexpr int kAuthorityDays = 3650;
inline constexpr int kLeafDays = 30;
inline constexpr int kLeafDaysMax = 825;
inline constexpr size_t kDnsNamesMax = 16;

struct Validity {
  int64_t not_before_s = 0;  // Unix time
  int64_t not_after_s = 0;
};

// From an hour before `now_s`, so that hosts with slow clocks accept it, to `days` after it.
Validity ValidityFrom(int64_t now_s, int days);

struct KeyAndCertificate {
  std::string key_pem;
  std::string certificate_pem;
};

struct KeyAndRequest {
  std::string key_pem;
  std::string request_pem;
};

struct LeafOptions {
  Identity identity;
  std::vector<std::string> dns_names;  // for tools that look at host names; gateways do not
  Validity validity;
};

// A self-signed authority: CA:TRUE with path length 0, keyCertSign and cRLSign, the trust domain as
// its URI name `spiffe://<domain>`.
absl::StatusOr<KeyAndCertificate> MakeAuthority(const std::string& domain,
                                                const Validity& validity);

// The trust domain that an authority's certificate names. FailedPrecondition: not an authority of
// this kind.
absl::StatusOr<std::string> AuthorityDomain(const std::string& authority_certificate_pem);

// A key and a certificate for a gateway: digitalSignature, serverAuth and clientAuth, one URI name.
// The identity's domain must be the authority's; a leaf may not outlive its authority.
absl::StatusOr<KeyAndCertificate> IssueLeaf(const KeyAndCertificate& authority,
                                            const LeafOptions& options);

// A key and a signing request for it: made on the gateway, so that the key never travels.
absl::StatusOr<KeyAndRequest> MakeRequest(const Identity& identity,
                                          const std::vector<std::string>& dns_names);

// What a signing request asks for, its self-signature checked. Only names are read from it.
struct RequestInfo {
  Identity identity;
  std::vector<std::string> dns_names;
};
absl::StatusOr<RequestInfo> DescribeRequest(const std::string& request_pem);

// The certificate for a request. Extensions, usages and dates are this function's, never the
// request's; its key must be P-256. The caller has compared DescribeRequest with what it expects.
absl::StatusOr<std::string> SignRequest(const KeyAndCertificate& authority,
                                        const std::string& request_pem, const Validity& validity);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_PKI_H_
