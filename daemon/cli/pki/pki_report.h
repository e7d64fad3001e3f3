// PKI report: what the files of a PKI directory say, as text for people and JSON for programs.
//
// Reads files, prints nothing; the caller passes the time. Private keys are judged (mode, owner,
// whose they are) and never shown.
#ifndef CAUSEWAY_DAEMON_CLI_PKI_PKI_REPORT_H_
#define CAUSEWAY_DAEMON_CLI_PKI_PKI_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "security/certificate.h"

namespace causeway::cli {

inline constexpr size_t kReportFilesMax = 256;

struct CertificateReport {
  std::string path;
  std::string kind;  // "authority", "gateway" or "other"
  security::CertificateInfo info;
  int64_t days_left = 0;  // negative once expired
  // The private key beside it, the same name ending in .key; empty: there is none.
  std::string key_path;
  std::string key_mode;   // octal, such as "0600"
  std::string key_fault;  // empty: usable by this user and belongs to the certificate
};

// One certificate file, or every *.pem of a directory, in name order. NotFound when a directory
// holds none.
absl::StatusOr<std::vector<CertificateReport>> ReportCertificates(const std::string& path,
                                                                  int64_t now_s);

std::string FormatText(const std::vector<CertificateReport>& reports);
std::string FormatJson(const std::vector<CertificateReport>& reports);

// `text` as a JSON string, quotes included.
std::string JsonString(const std::string& text);

}  // namespace causeway::cli

#endif  // CAUSEWAY_DAEMON_CLI_PKI_PKI_REPORT_H_
