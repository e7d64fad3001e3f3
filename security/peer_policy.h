// PeerPolicy: whether the gateway behind a certificate may speak with this one.
//
// Decides; does no I/O and logs nothing. Thread-safe: handshakes of gRPC's threads ask while the
// daemon changes peers or the deny list. The chain itself was verified before (by OpenSSL, in the
// handshake); this is what OpenSSL cannot know.
#ifndef CAUSEWAY_SECURITY_PEER_POLICY_H_
#define CAUSEWAY_SECURITY_PEER_POLICY_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "security/certificate.h"
#include "security/identity.h"

namespace causeway::security {

// Why a handshake ended; also the label of the metric.
enum class HandshakeResult {
  kAccepted,
  kUnreadable,     // the certificate cannot be parsed
  kNoIdentity,     // no gateway identity, or more than one URI name
  kOtherDomain,    // another trust domain under the same authority
  kNotConfigured,  // a gateway that is no peer of this one
  kNotDialled,     // a peer, but not the one that was dialled
  kDenied,         // on the deny list
  kExpired,        // expired since it was verified (a resumed session)
  kTls,            // OpenSSL refused: authority, dates, version, no certificate
};
inline constexpr int kHandshakeResults = 9;
const char* HandshakeResultName(HandshakeResult result);  // "accepted", "not_configured", ...

// Certificates that are refused although they verify. Keyed by what a thief cannot vary: the public
// key, or issuer and serial; a certificate's fingerprint changes with its encoding.
struct DenyList {
  std::set<std::string> spki_sha256;                             // 64 lower-case hex digits
  std::set<std::pair<std::string, std::string>> issuer_serials;  // as in CertificateInfo
};
inline constexpr size_t kDenyListMax = 10'000;
// InvalidArgument names an entry that could never match.
absl::Status ValidateDenyList(const DenyList& list);

struct Verdict {
  HandshakeResult result = HandshakeResult::kAccepted;
  std::string reason;    // for the log; empty when accepted
  std::string identity;  // the URI as presented, printable; empty when there is none
  CertificateInfo certificate;
  std::string cluster;  // when accepted
};

class PeerPolicy {
 public:
  // `self` is this gateway; `now_s` gives Unix time and is called on gRPC's threads.
  PeerPolicy(Identity self, std::vector<std::string> peers, std::function<int64_t()> now_s);

  void SetPeers(std::vector<std::string> peers) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetDenyList(DenyList list) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsPeer(const std::string& cluster) const ABSL_LOCKS_EXCLUDED(mutex_);

  // `dialled`: the cluster that this side meant to reach; empty on the accepting side.
  Verdict Judge(const std::string& certificate_pem, const std::string& dialled) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The same for a certificate read before, such as that of a live connection.
  Verdict Judge(const CertificateInfo& certificate, const std::string& dialled) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Identity& self() const { return self_; }

 private:
  const Identity self_;
  const std::function<int64_t()> now_s_;
  mutable absl::Mutex mutex_;
  std::set<std::string> peers_ ABSL_GUARDED_BY(mutex_);
  DenyList denied_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_PEER_POLICY_H_
