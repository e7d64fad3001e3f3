// PKI store: the files of an authority and of a gateway's certificate in their directories.
//
// Blocking file I/O on one thread; the caller passes the time. Formatting is pki_report.h,
// arguments are pki_commands.h, cryptography is security/pki.h.
#ifndef CAUSEWAY_DAEMON_CLI_PKI_PKI_STORE_H_
#define CAUSEWAY_DAEMON_CLI_PKI_PKI_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::cli {

inline constexpr char kAuthorityCertificateFile[] = "ca.pem";
inline constexpr char kAuthorityKeyFile[] = "ca.key";
inline constexpr char kGatewayCertificateFile[] = "gateway.pem";
inline constexpr char kGatewayKeyFile[] = "gateway.key";
inline constexpr char kGatewayRequestFile[] = "gateway.csr";

struct InitRequest {
  std::string directory;
  std::string domain;
  int days = 0;
};

struct LeafRequest {
  std::string cluster;    // issue, request: whose certificate; sign: empty or what the CSR must say
  std::string directory;  // of the authority (issue, sign)
  std::string domain;     // request only: issue and sign take the authority's
  std::string csr_path;   // sign only
  std::string out;        // directory of the results; empty: <directory>/<cluster>
  std::string owner;      // user who gets the private key; empty: the caller
  std::vector<std::string> dns_names;
  int days = 0;
  bool force = false;  // replace what is there
};

// Paths of the files written, in the order of writing. Nothing that exists is replaced without
// `force` (AlreadyExists); an existing authority is never replaced.
absl::StatusOr<std::vector<std::string>> InitAuthority(const InitRequest& request, int64_t now_s);
absl::StatusOr<std::vector<std::string>> IssueCertificate(const LeafRequest& request,
                                                          int64_t now_s);
absl::StatusOr<std::vector<std::string>> MakeSigningRequest(const LeafRequest& request);
absl::StatusOr<std::vector<std::string>> SignSigningRequest(const LeafRequest& request,
                                                            int64_t now_s);

}  // namespace causeway::cli

#endif  // CAUSEWAY_DAEMON_CLI_PKI_PKI_STORE_H_
