// See credential_files.h.
#include "security/credential_files.h"

#include "security/certificate_parsing.h"
#include "security/secure_files.h"

namespace causeway::security {
namespace {

constexpr int64_t kDay_s = 24 * 3600;

absl::Status Prefixed(const std::string& file, const absl::Status& status,
                      const std::string& remedy = "") {
  return absl::Status(status.code(), file + ": " + std::string(status.message()) + remedy);
}

absl::StatusOr<std::vector<CertificateInfo>> DescribeAuthorities(const std::string& path,
                                                                 const std::string& pem) {
  absl::StatusOr<std::vector<CertificateHandle>> certificates = ParseCertificates(pem);
  if (!certificates.ok()) return Prefixed(path, certificates.status());
  std::vector<CertificateInfo> infos;
  for (const CertificateHandle& certificate : *certificates) {
    absl::StatusOr<CertificateInfo> info = Describe(certificate.get());
    if (!info.ok()) return Prefixed(path, info.status());
    if (!info->is_authority) {
      return absl::FailedPreconditionError(
          path + ": certificate " + info->subject +
          " is no authority; whatever is in this file is trusted, so remove it");
    }
    infos.push_back(*std::move(info));
  }
  return infos;
}

absl::Status CheckDates(const std::string& path, const CertificateInfo& info, int64_t now_s) {
  if (now_s > info.not_after_s) {
    return absl::FailedPreconditionError(path + ": certificate " + info.subject + " expired on " +
                                         FormatTime(info.not_after_s) +
                                         "; issue a new one with: causeway pki issue");
  }
  if (now_s < info.not_before_s) {
    return absl::FailedPreconditionError(path + ": certificate " + info.subject +
                                         " is valid only from " + FormatTime(info.not_before_s) +
                                         ", and this host's clock says " + FormatTime(now_s));
  }
  return absl::OkStatus();
}

absl::Status CheckChain(const CredentialFiles& files, const CredentialMaterial& material,
                        int64_t now_s) {
  for (CertificateUse use : {CertificateUse::kServer, CertificateUse::kClient}) {
    absl::Status status = VerifyChain(material.certificate_pem, material.authority_pem, use, now_s);
    if (!status.ok()) {
      return Prefixed(files.certificate, status, "; it must chain to " + files.authority);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Identity> CheckIdentity(const std::string& path, const CertificateInfo& info,
                                       const std::string& cluster) {
  absl::StatusOr<Identity> identity = CertificateIdentity(info);
  if (!identity.ok()) return Prefixed(path, identity.status());
  if (identity->cluster == cluster) return identity;
  return absl::FailedPreconditionError(path + ": the certificate is cluster " + identity->cluster +
                                       "'s, but this gateway is configured as " + cluster);
}

}  // namespace

absl::StatusOr<CredentialMaterial> LoadCredentialFiles(const CredentialFiles& files,
                                                       const std::string& cluster, int64_t now_s) {
  CredentialMaterial material;
  absl::StatusOr<std::string> certificate = ReadPublicFile(files.certificate);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadSecretFile(files.key);
  if (!key.ok()) return key.status();
  absl::StatusOr<std::string> authority = ReadPublicFile(files.authority);
  if (!authority.ok()) return authority.status();
  material.certificate_pem = *std::move(certificate);
  material.key_pem = *std::move(key);
  material.authority_pem = *std::move(authority);
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(material.certificate_pem);
  if (!info.ok()) return Prefixed(files.certificate, info.status());
  material.certificate = *std::move(info);
  absl::StatusOr<std::vector<CertificateInfo>> authorities =
      DescribeAuthorities(files.authority, material.authority_pem);
  if (!authorities.ok()) return authorities.status();
  material.authorities = *std::move(authorities);
  absl::Status status = CheckKeyMatches(material.key_pem, material.certificate_pem);
  if (!status.ok()) return Prefixed(files.key, status, " in " + files.certificate);
  status = CheckDates(files.certificate, material.certificate, now_s);
  if (status.ok()) status = CheckChain(files, material, now_s);
  if (!status.ok()) return status;
  absl::StatusOr<Identity> identity =
      CheckIdentity(files.certificate, material.certificate, cluster);
  if (!identity.ok()) return identity.status();
  material.identity = *std::move(identity);
  return material;
}

std::vector<std::string> ExpiryWarnings(const CredentialMaterial& material, int64_t now_s) {
  std::vector<std::string> warnings;
  const CertificateInfo& info = material.certificate;
  if (now_s - info.not_before_s > (info.not_after_s - info.not_before_s) / 2) {
    warnings.push_back("certificate " + info.subject + " is past half its life and ends on " +
                       FormatTime(info.not_after_s) + "; renew it with: causeway pki issue " +
                       material.identity.cluster + " --force");
  }
  for (const CertificateInfo& authority : material.authorities) {
    if (authority.not_after_s - now_s < kAuthorityWarningDays * kDay_s) {
      warnings.push_back("authority " + authority.subject + " ends on " +
                         FormatTime(authority.not_after_s) +
                         "; add a new authority to every gateway's file before then");
    }
  }
  return warnings;
}

}  // namespace causeway::security
