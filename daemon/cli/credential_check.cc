#include "daemon/cli/credential_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "security/credential_files.h"

namespace causeway::cli {
namespace {

// The daemon refuses another user's key; root checks for the user who will run it.
bool CheckedForAnotherUser(const std::string& key) {
  struct stat info;
  return geteuid() == 0 && stat(key.c_str(), &info) == 0 && info.st_uid != 0;
}

}  // namespace

void CheckCredentials(int64_t now_s, config::ParseResult* result) {
  if (!result->ok()) return;
  const config::Config& config = *result->config;
  if (CheckedForAnotherUser(config.tls.key)) {
    result->warnings.push_back(
        {0, 0, "tls",
         absl::StrCat("certificates were not checked: ", config.tls.key,
                      " belongs to another user; repeat the check as that user")});
    return;
  }
  const absl::StatusOr<security::CredentialMaterial> material = security::LoadCredentialFiles(
      {config.tls.certificate, config.tls.key, config.tls.authority}, config.cluster, now_s);
  std::string error;
  if (!material.ok()) {
    error = std::string(material.status().message());
  } else if (material->identity.domain != config.domain) {
    error = absl::StrCat(config.tls.certificate, " is of the domain '", material->identity.domain,
                         "', but domain is '", config.domain,
                         "'; set domain to the authority's (causeway pki show)");
  }
  if (!error.empty()) {
    result->errors.push_back({0, 0, "tls", error});
    result->config.reset();
    return;
  }
  for (std::string& warning : security::ExpiryWarnings(*material, now_s)) {
    result->warnings.push_back({0, 0, "tls", std::move(warning)});
  }
}

}  // namespace causeway::cli
