// See pki_store.h. A key is written before its certificate: a certificate beside a missing key is
// refused at start, a key without a certificate too, and neither is mistaken for a whole pair.
#include "daemon/cli/pki/pki_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "security/certificate.h"
#include "security/identity.h"
#include "security/pki.h"
#include "security/secure_files.h"

namespace causeway::cli {
namespace {

using security::KeyAndCertificate;
using security::WriteOptions;

constexpr mode_t kSecretMode = 0600;
constexpr mode_t kPublicMode = 0644;
constexpr mode_t kDirectoryMode = 0755;  // the keys are 0600; certificates are public

std::string Join(const std::string& directory, const std::string& name) {
  return directory + (directory.empty() || directory.back() == '/' ? "" : "/") + name;
}

bool Exists(const std::string& path) {
  struct stat about = {};
  return lstat(path.c_str(), &about) == 0;
}

absl::Status CheckFree(const std::vector<std::string>& paths, const char* remedy) {
  for (const std::string& path : paths) {
    if (Exists(path)) return absl::AlreadyExistsError(path + " exists already; " + remedy);
  }
  return absl::OkStatus();
}

absl::Status CheckDays(int days, int days_max) {
  if (days >= 1 && days <= days_max) return absl::OkStatus();
  return absl::InvalidArgumentError("--days " + std::to_string(days) + " is not within 1 to " +
                                    std::to_string(days_max));
}

absl::StatusOr<KeyAndCertificate> ReadAuthority(const std::string& directory) {
  absl::StatusOr<std::string> certificate =
      security::ReadPublicFile(Join(directory, kAuthorityCertificateFile));
  if (absl::IsNotFound(certificate.status())) {
    return absl::NotFoundError("no authority in " + directory +
                               "; make one with: causeway pki init --directory " + directory);
  }
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = security::ReadSecretFile(Join(directory, kAuthorityKeyFile));
  if (!key.ok()) return key.status();
  return KeyAndCertificate{*std::move(key), *std::move(certificate)};
}

// The authority's certificate beside a gateway's: the same bytes may be there already.
absl::Status CopyAuthority(const std::string& certificate_pem, const std::string& path,
                           bool force) {
  if (Exists(path)) {
    absl::StatusOr<std::string> present = security::ReadPublicFile(path);
    if (!present.ok()) return present.status();
    if (*present == certificate_pem) return absl::OkStatus();
    if (!force) {
      return absl::AlreadyExistsError(path +
                                      " is another authority's; it was left as it is "
                                      "(--force replaces it)");
    }
  }
  return security::WriteFileAtomically(path, certificate_pem,
                                       {.mode = kPublicMode, .overwrite = force});
}

std::string OutDirectory(const LeafRequest& request, const std::string& cluster) {
  return request.out.empty() ? Join(request.directory, cluster) : request.out;
}

absl::StatusOr<WriteOptions> SecretOptions(const LeafRequest& request) {
  WriteOptions options{.mode = kSecretMode, .overwrite = request.force};
  if (!request.owner.empty()) {
    absl::StatusOr<security::Owner> owner = security::FindOwner(request.owner);
    if (!owner.ok()) return owner.status();
    options.owner = *owner;
  }
  return options;
}

struct NamedFile {
  std::string path;
  std::string bytes;
  WriteOptions options;
};

// All or, as far as a file system allows, none: a failure removes what this call newly made.
absl::StatusOr<std::vector<std::string>> WriteTogether(const std::vector<NamedFile>& files) {
  std::vector<std::string> written;
  for (const NamedFile& file : files) {
    absl::Status status = security::WriteFileAtomically(file.path, file.bytes, file.options);
    if (status.ok()) {
      written.push_back(file.path);
      continue;
    }
    for (size_t i = 0; i < written.size(); ++i) {
      if (!files[i].options.overwrite) unlink(written[i].c_str());
    }
    return status;
  }
  return written;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> InitAuthority(const InitRequest& request, int64_t now_s) {
  constexpr int kAuthorityDaysMax = 36500;
  if (absl::Status status = CheckDays(request.days, kAuthorityDaysMax); !status.ok()) {
    return status;
  }
  const std::string key_path = Join(request.directory, kAuthorityKeyFile);
  const std::string certificate_path = Join(request.directory, kAuthorityCertificateFile);
  absl::Status status =
      CheckFree({key_path, certificate_path},
                "an authority is never replaced, since every certificate depends on it; move it "
                "away or name another --directory");
  if (!status.ok()) return status;
  absl::StatusOr<KeyAndCertificate> authority =
      security::MakeAuthority(request.domain, security::ValidityFrom(now_s, request.days));
  if (!authority.ok()) return authority.status();
  if (status = security::MakeDirectories(request.directory, kDirectoryMode); !status.ok()) {
    return status;
  }
  return WriteTogether({{key_path, authority->key_pem, {.mode = kSecretMode}},
                        {certificate_path, authority->certificate_pem, {.mode = kPublicMode}}});
}

absl::StatusOr<std::vector<std::string>> IssueCertificate(const LeafRequest& request,
                                                          int64_t now_s) {
  absl::Status status = CheckDays(request.days, security::kLeafDaysMax);
  if (status.ok()) status = security::ValidateClusterName(request.cluster);
  if (!status.ok()) return status;
  absl::StatusOr<KeyAndCertificate> authority = ReadAuthority(request.directory);
  if (!authority.ok()) return authority.status();
  absl::StatusOr<std::string> domain = security::AuthorityDomain(authority->certificate_pem);
  if (!domain.ok()) return domain.status();
  const std::string out = OutDirectory(request, request.cluster);
  const std::string key_path = Join(out, kGatewayKeyFile);
  const std::string certificate_path = Join(out, kGatewayCertificateFile);
  if (!request.force) {
    status = CheckFree({key_path, certificate_path}, "--force replaces it");
    if (!status.ok()) return status;
  }
  absl::StatusOr<WriteOptions> secret = SecretOptions(request);
  if (!secret.ok()) return secret.status();
  absl::StatusOr<KeyAndCertificate> leaf =
      security::IssueLeaf(*authority, {.identity = {*domain, request.cluster},
                                       .dns_names = request.dns_names,
                                       .validity = security::ValidityFrom(now_s, request.days)});
  if (!leaf.ok()) return leaf.status();
  status = security::MakeDirectories(out, kDirectoryMode);
  const std::string authority_path = Join(out, kAuthorityCertificateFile);
  if (status.ok())
    status = CopyAuthority(authority->certificate_pem, authority_path, request.force);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> written =
      WriteTogether({{key_path, leaf->key_pem, *secret},
                     {certificate_path,
                      leaf->certificate_pem,
                      {.mode = kPublicMode, .overwrite = request.force}}});
  if (written.ok()) written->push_back(authority_path);
  return written;
}

absl::StatusOr<std::vector<std::string>> MakeSigningRequest(const LeafRequest& request) {
  const std::string key_path = Join(request.out, kGatewayKeyFile);
  const std::string request_path = Join(request.out, kGatewayRequestFile);
  if (!request.force) {
    absl::Status status = CheckFree({key_path, request_path}, "--force replaces it");
    if (!status.ok()) return status;
  }
  absl::StatusOr<WriteOptions> secret = SecretOptions(request);
  if (!secret.ok()) return secret.status();
  absl::StatusOr<security::KeyAndRequest> made =
      security::MakeRequest({request.domain, request.cluster}, request.dns_names);
  if (!made.ok()) return made.status();
  if (absl::Status status = security::MakeDirectories(request.out, kDirectoryMode); !status.ok()) {
    return status;
  }
  return WriteTogether(
      {{key_path, made->key_pem, *secret},
       {request_path, made->request_pem, {.mode = kPublicMode, .overwrite = request.force}}});
}

absl::StatusOr<std::vector<std::string>> SignSigningRequest(const LeafRequest& request,
                                                            int64_t now_s) {
  absl::Status status = CheckDays(request.days, security::kLeafDaysMax);
  if (!status.ok()) return status;
  absl::StatusOr<std::string> csr = security::ReadPublicFile(request.csr_path);
  if (!csr.ok()) return csr.status();
  absl::StatusOr<security::RequestInfo> asked = security::DescribeRequest(*csr);
  if (!asked.ok()) return asked.status();
  if (!request.cluster.empty() && asked->identity.cluster != request.cluster) {
    return absl::FailedPreconditionError(request.csr_path + " asks for cluster " +
                                         asked->identity.cluster + ", not " + request.cluster);
  }
  absl::StatusOr<KeyAndCertificate> authority = ReadAuthority(request.directory);
  if (!authority.ok()) return authority.status();
  absl::StatusOr<std::string> certificate =
      security::SignRequest(*authority, *csr, security::ValidityFrom(now_s, request.days));
  if (!certificate.ok()) return certificate.status();
  const std::string out = OutDirectory(request, asked->identity.cluster);
  const std::string authority_path = Join(out, kAuthorityCertificateFile);
  status = security::MakeDirectories(out, kDirectoryMode);
  if (status.ok())
    status = CopyAuthority(authority->certificate_pem, authority_path, request.force);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> written =
      WriteTogether({{Join(out, kGatewayCertificateFile),
                      *certificate,
                      {.mode = kPublicMode, .overwrite = request.force}}});
  if (written.ok()) written->push_back(authority_path);
  return written;
}

}  // namespace causeway::cli
