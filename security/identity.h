// Identity: who a gateway is, as its certificate says it: the one URI
// `spiffe://<domain>/gateway/<cluster>` among the certificate's subject alternative names.
//
// Pure functions over text, callable from any thread. Also the validator of cluster names for the
// configuration. Knows nothing of certificates or of which peers are allowed.
#ifndef CAUSEWAY_SECURITY_IDENTITY_H_
#define CAUSEWAY_SECURITY_IDENTITY_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::security {

inline constexpr size_t kClusterNameLengthMax = 63;
inline constexpr size_t kDomainLengthMax = 253;

struct Identity {
  std::string domain;   // trust domain, such as "example.org"
  std::string cluster;  // the gateway's cluster, such as "paris"

  bool operator==(const Identity&) const = default;
};

// A cluster name is a DNS label: 1 to 63 of [a-z0-9-], neither first nor last a hyphen.
// InvalidArgument names the offending character and the rule.
absl::Status ValidateClusterName(std::string_view name);

// A trust domain is dot-separated DNS labels, 253 characters at most, in lower case.
absl::Status ValidateDomain(std::string_view domain);

// Both parts must be valid (ValidateClusterName, ValidateDomain); anything else is a caller's bug.
std::string FormatIdentity(const Identity& identity);

// The exact inverse of FormatIdentity: no port, query, percent-encoding or second spelling is
// accepted, so that identities can be compared as bytes.
absl::StatusOr<Identity> ParseIdentity(std::string_view uri);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_IDENTITY_H_
