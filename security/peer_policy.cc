// See peer_policy.h.
#include "security/peer_policy.h"

#include <cassert>

namespace causeway::security {
namespace {

// A verdict without a cluster. The identity is shown only when it is the certificate's one URI,
// whose characters certificate_parsing.h checked.
Verdict Refusal(const CertificateInfo& info, HandshakeResult result, const std::string& reason) {
  Verdict verdict;
  verdict.result = result;
  verdict.reason = reason;
  verdict.certificate = info;
  if (info.uris.size() == 1) verdict.identity = info.uris.front();
  return verdict;
}

}  // namespace

const char* HandshakeResultName(HandshakeResult result) {
  switch (result) {
    case HandshakeResult::kAccepted:
      return "accepted";
    case HandshakeResult::kUnreadable:
      return "unreadable";
    case HandshakeResult::kNoIdentity:
      return "no_identity";
    case HandshakeResult::kOtherDomain:
      return "other_domain";
    case HandshakeResult::kNotConfigured:
      return "not_configured";
    case HandshakeResult::kNotDialled:
      return "not_dialled";
    case HandshakeResult::kDenied:
      return "denied";
    case HandshakeResult::kExpired:
      return "expired";
    case HandshakeResult::kTls:
      return "tls";
  }
  assert(false);
  return "";
}

absl::Status ValidateDenyList(const DenyList& list) {
  constexpr size_t kHashDigits = 64;
  if (list.spki_sha256.size() + list.issuer_serials.size() > kDenyListMax) {
    return absl::InvalidArgumentError("the deny list has more than " +
                                      std::to_string(kDenyListMax) + " entries");
  }
  const std::string digits = "0123456789abcdef";
  for (const std::string& hash : list.spki_sha256) {
    if (hash.size() != kHashDigits || hash.find_first_not_of(digits) != std::string::npos) {
      return absl::InvalidArgumentError("deny list entry \"" + hash +
                                        "\" is not a public key's SHA-256 in lower-case "
                                        "hexadecimal (causeway pki show prints it)");
    }
  }
  for (const auto& [issuer, serial] : list.issuer_serials) {
    if (issuer.empty() || serial.empty() || serial.find_first_not_of(digits) != std::string::npos) {
      return absl::InvalidArgumentError("deny list entry (\"" + issuer + "\", \"" + serial +
                                        "\") is not an issuer and a lower-case hexadecimal serial");
    }
  }
  return absl::OkStatus();
}

PeerPolicy::PeerPolicy(Identity self, std::vector<std::string> peers,
                       std::function<int64_t()> now_s)
    : self_(std::move(self)), now_s_(std::move(now_s)), peers_(peers.begin(), peers.end()) {}

void PeerPolicy::SetPeers(std::vector<std::string> peers) {
  const absl::MutexLock lock(&mutex_);
  peers_ = std::set<std::string>(peers.begin(), peers.end());
}

void PeerPolicy::SetDenyList(DenyList list) {
  const absl::MutexLock lock(&mutex_);
  denied_ = std::move(list);
}

bool PeerPolicy::IsPeer(const std::string& cluster) const {
  const absl::MutexLock lock(&mutex_);
  return peers_.count(cluster) != 0;
}

Verdict PeerPolicy::Judge(const std::string& certificate_pem, const std::string& dialled) const {
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(certificate_pem);
  if (info.ok()) return Judge(*info, dialled);
  return Refusal({}, HandshakeResult::kUnreadable, std::string(info.status().message()));
}

Verdict PeerPolicy::Judge(const CertificateInfo& info, const std::string& dialled) const {
  const absl::StatusOr<Identity> identity = CertificateIdentity(info);
  if (!identity.ok()) {
    return Refusal(info, HandshakeResult::kNoIdentity, std::string(identity.status().message()));
  }
  if (identity->domain != self_.domain) {
    return Refusal(info, HandshakeResult::kOtherDomain,
                   "domain " + identity->domain + " is not this gateway's " + self_.domain);
  }
  if (!dialled.empty() && identity->cluster != dialled) {
    return Refusal(info, HandshakeResult::kNotDialled,
                   "cluster " + dialled + " was dialled and " + identity->cluster +
                       " answered; is the peer's address right?");
  }
  if (now_s_() > info.not_after_s) {
    return Refusal(info, HandshakeResult::kExpired,
                   "certificate expired on " + FormatTime(info.not_after_s));
  }
  const absl::MutexLock lock(&mutex_);
  if (peers_.count(identity->cluster) == 0) {
    return Refusal(info, HandshakeResult::kNotConfigured,
                   "cluster " + identity->cluster + " is not among the peers of " + self_.cluster);
  }
  if (denied_.spki_sha256.count(info.spki_sha256) != 0 ||
      denied_.issuer_serials.count({info.issuer, info.serial}) != 0) {
    return Refusal(info, HandshakeResult::kDenied,
                   "certificate " + info.serial + " is on the deny list");
  }
  Verdict verdict = Refusal(info, HandshakeResult::kAccepted, "");
  verdict.cluster = identity->cluster;
  return verdict;
}

}  // namespace causeway::security
