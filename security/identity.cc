// The grammar of a gateway's identity. A general URI parser is rejected on purpose: it accepts many
// spellings of one name, and identities are matched exactly.
#include "security/identity.h"

#include <algorithm>
#include <cassert>

namespace causeway::security {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr std::string_view kPath = "/gateway/";

std::string Quoted(std::string_view text) {
  constexpr size_t kShownMax = 80;
  std::string shown = "\"";
  for (char c : text.substr(0, kShownMax)) shown += (c >= ' ' && c <= '~') ? c : '?';
  return shown + (text.size() > kShownMax ? "...\"" : "\"");
}

bool IsLabelCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

// Empty when `label` is a DNS label in lower case, else what is wrong with it.
std::string LabelFault(std::string_view label) {
  if (label.empty()) return "is empty";
  if (label.size() > kClusterNameLengthMax) {
    return "has " + std::to_string(label.size()) + " characters, " +
           std::to_string(kClusterNameLengthMax) + " are allowed";
  }
  for (char c : label) {
    if (!IsLabelCharacter(c)) {
      return "holds " + Quoted(std::string_view(&c, 1)) +
             "; lower-case letters, digits and hyphens are allowed";
    }
  }
  if (label.front() == '-' || label.back() == '-') return "begins or ends with a hyphen";
  return "";
}

}  // namespace

absl::Status ValidateClusterName(std::string_view name) {
  const std::string fault = LabelFault(name);
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("cluster name " + Quoted(name) + " " + fault);
}

absl::Status ValidateDomain(std::string_view domain) {
  if (domain.empty() || domain.size() > kDomainLengthMax) {
    return absl::InvalidArgumentError("domain " + Quoted(domain) + " must have 1 to " +
                                      std::to_string(kDomainLengthMax) + " characters");
  }
  for (size_t begin = 0; begin <= domain.size();) {
    const size_t dot = std::min(domain.find('.', begin), domain.size());
    const std::string fault = LabelFault(domain.substr(begin, dot - begin));
    if (!fault.empty()) {
      return absl::InvalidArgumentError("domain " + Quoted(domain) + ": the label at character " +
                                        std::to_string(begin + 1) + " " + fault);
    }
    begin = dot + 1;
  }
  return absl::OkStatus();
}

std::string FormatIdentity(const Identity& identity) {
  assert(ValidateDomain(identity.domain).ok() && ValidateClusterName(identity.cluster).ok());
  return std::string(kScheme) + identity.domain + std::string(kPath) + identity.cluster;
}

absl::StatusOr<Identity> ParseIdentity(std::string_view uri) {
  const auto refuse = [uri](const std::string& why) {
    return absl::InvalidArgumentError("identity " + Quoted(uri) + " is not of the form " +
                                      "spiffe://DOMAIN/gateway/CLUSTER: " + why);
  };
  if (uri.substr(0, kScheme.size()) != kScheme) return refuse("another scheme");
  uri.remove_prefix(kScheme.size());
  const size_t slash = uri.find('/');
  if (slash == std::string_view::npos) return refuse("no path");
  Identity identity;
  identity.domain = std::string(uri.substr(0, slash));
  uri.remove_prefix(slash);
  if (uri.substr(0, kPath.size()) != kPath) return refuse("the path does not begin with /gateway/");
  identity.cluster = std::string(uri.substr(kPath.size()));
  if (absl::Status status = ValidateDomain(identity.domain); !status.ok()) {
    return refuse(std::string(status.message()));
  }
  if (absl::Status status = ValidateClusterName(identity.cluster); !status.ok()) {
    return refuse(std::string(status.message()));
  }
  return identity;
}

}  // namespace causeway::security
