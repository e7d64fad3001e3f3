// See pki_report.h.
#include "daemon/cli/pki/pki_report.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "security/secure_files.h"

namespace causeway::cli {
namespace {

constexpr char kCertificateSuffix[] = ".pem";
constexpr char kKeySuffix[] = ".key";

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

absl::StatusOr<std::vector<std::string>> CertificatePaths(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) {
    return absl::NotFoundError("cannot examine " + path + ": " + std::strerror(errno));
  }
  if (!S_ISDIR(about.st_mode)) return std::vector<std::string>{path};
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), &closedir);
  if (directory == nullptr) {
    return absl::PermissionDeniedError("cannot list " + path + ": " + std::strerror(errno));
  }
  std::vector<std::string> paths;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (!EndsWith(name, kCertificateSuffix)) continue;
    if (paths.size() == kReportFilesMax) {
      return absl::ResourceExhaustedError(path + " holds more than " +
                                          std::to_string(kReportFilesMax) + " certificates");
    }
    paths.push_back(path + (path.back() == '/' ? "" : "/") + name);
  }
  if (paths.empty()) return absl::NotFoundError("no certificate (*.pem) in " + path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

void DescribeKey(const std::string& certificate_pem, CertificateReport* report) {
  if (!EndsWith(report->path, kCertificateSuffix)) return;
  const std::string path =
      report->path.substr(0, report->path.size() - std::strlen(kCertificateSuffix)) + kKeySuffix;
  struct stat about = {};
  if (lstat(path.c_str(), &about) != 0) return;
  report->key_path = path;
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode & 07777));
  report->key_mode = mode;
  absl::StatusOr<std::string> key = security::ReadSecretFile(path);
  absl::Status status = key.status();
  if (key.ok()) status = security::CheckKeyMatches(*key, certificate_pem);
  if (!status.ok()) report->key_fault = std::string(status.message());
}

std::string Kind(const security::CertificateInfo& info) {
  if (info.is_authority) return "authority";
  return security::CertificateIdentity(info).ok() ? "gateway" : "other";
}

absl::StatusOr<CertificateReport> ReportOne(const std::string& path, int64_t now_s) {
  constexpr int64_t kDay_s = 24 * 3600;
  CertificateReport report;
  report.path = path;
  absl::StatusOr<std::string> pem = security::ReadPublicFile(path);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<security::CertificateInfo> info = security::DescribeCertificate(*pem);
  if (!info.ok()) {
    return absl::InvalidArgumentError(path + ": " + std::string(info.status().message()));
  }
  report.info = *std::move(info);
  report.kind = Kind(report.info);
  const int64_t left_s = report.info.not_after_s - now_s;
  report.days_left = left_s >= 0 ? left_s / kDay_s : -((-left_s + kDay_s - 1) / kDay_s);
  DescribeKey(*pem, &report);
  return report;
}

std::string Listed(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string JsonArray(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) text += (text.size() > 1 ? "," : "") + JsonString(item);
  return text + "]";
}

std::string TimeLeft(const CertificateReport& report) {
  if (report.days_left < 0) return "EXPIRED " + std::to_string(-report.days_left) + " days ago";
  return std::to_string(report.days_left) + " days left";
}

}  // namespace

absl::StatusOr<std::vector<CertificateReport>> ReportCertificates(const std::string& path,
                                                                  int64_t now_s) {
  absl::StatusOr<std::vector<std::string>> paths = CertificatePaths(path);
  if (!paths.ok()) return paths.status();
  std::vector<CertificateReport> reports;
  for (const std::string& one : *paths) {
    absl::StatusOr<CertificateReport> report = ReportOne(one, now_s);
    if (!report.ok()) return report.status();
    reports.push_back(*std::move(report));
  }
  return reports;
}

std::string FormatText(const std::vector<CertificateReport>& reports) {
  std::string text;
  for (const CertificateReport& report : reports) {
    const security::CertificateInfo& info = report.info;
    text += report.path + "\n  kind        " + report.kind + "\n  subject     " + info.subject +
            "\n  issuer      " + info.issuer + "\n  identity    " + Listed(info.uris) + "\n";
    if (!info.dns_names.empty()) text += "  dns names   " + Listed(info.dns_names) + "\n";
    text += "  valid       " + security::FormatTime(info.not_before_s) + " to " +
            security::FormatTime(info.not_after_s) + ", " + TimeLeft(report) + "\n";
    if (!report.key_path.empty()) {
      text += "  key         " + report.key_path + ", mode " + report.key_mode + ", " +
              (report.key_fault.empty() ? "belongs to the certificate" : report.key_fault) + "\n";
    }
    text += "  serial      " + info.serial + "\n  public key  sha256 " + info.spki_sha256 + "\n";
  }
  return text;
}

std::string FormatJson(const std::vector<CertificateReport>& reports) {
  std::string text = "{\"certificates\":[";
  for (const CertificateReport& report : reports) {
    const security::CertificateInfo& info = report.info;
    if (&report != &reports.front()) text += ",";
    text += "{\"path\":" + JsonString(report.path) + ",\"kind\":" + JsonString(report.kind) +
            ",\"subject\":" + JsonString(info.subject) + ",\"issuer\":" + JsonString(info.issuer) +
            ",\"serial\":" + JsonString(info.serial) + ",\"uris\":" + JsonArray(info.uris) +
            ",\"dns_names\":" + JsonArray(info.dns_names) +
            ",\"not_before_s\":" + std::to_string(info.not_before_s) +
            ",\"not_after_s\":" + std::to_string(info.not_after_s) +
            ",\"days_left\":" + std::to_string(report.days_left) +
            ",\"spki_sha256\":" + JsonString(info.spki_sha256);
    if (!report.key_path.empty()) {
      text += ",\"key\":{\"path\":" + JsonString(report.key_path) +
              ",\"mode\":" + JsonString(report.key_mode) +
              ",\"usable\":" + (report.key_fault.empty() ? "true" : "false") +
              ",\"fault\":" + JsonString(report.key_fault) + "}";
    }
    text += "}";
  }
  return text + "]}\n";
}

std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace causeway::cli
