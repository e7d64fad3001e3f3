// PeerPolicy: each way to be refused, and that changes take effect.
#include "security/peer_policy.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace causeway::security {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;

CertificateInfo Certificate(const std::string& uri) {
  CertificateInfo info;
  info.subject = "CN=test";
  info.issuer = "CN=authority";
  info.serial = "1f";
  info.uris = {uri};
  info.not_after_s = kNow_s + 100;
  info.spki_sha256 = std::string(64, 'a');
  return info;
}

const char kTokyo[] = "spiffe://example.org/gateway/tokyo";

TEST_CASE("each certificate gets its verdict") {
  const PeerPolicy policy({"example.org", "paris"}, {"tokyo", "osaka"}, [] { return kNow_s; });
  const auto judge = [&](const CertificateInfo& info, const std::string& dialled) {
    return policy.Judge(info, dialled).result;
  };
  CHECK(judge(Certificate(kTokyo), "") == HandshakeResult::kAccepted);
  CHECK(judge(Certificate(kTokyo), "tokyo") == HandshakeResult::kAccepted);
  CHECK(policy.Judge(Certificate(kTokyo), "").cluster == "tokyo");
  CHECK(judge(Certificate(kTokyo), "osaka") == HandshakeResult::kNotDialled);
  CHECK(judge(Certificate("spiffe://example.com/gateway/tokyo"), "") ==
        HandshakeResult::kOtherDomain);
  CHECK(judge(Certificate("spiffe://example.org/gateway/lima"), "") ==
        HandshakeResult::kNotConfigured);
  CHECK(judge(Certificate("spiffe://example.org/gateway/paris"), "") ==
        HandshakeResult::kNotConfigured);  // this gateway's own name, used by another
  CHECK(judge(Certificate("https://example.org"), "") == HandshakeResult::kNoIdentity);
  CertificateInfo two = Certificate(kTokyo);
  two.uris.push_back("spiffe://example.org/gateway/osaka");
  CHECK(judge(two, "") == HandshakeResult::kNoIdentity);
  CertificateInfo old = Certificate(kTokyo);
  old.not_after_s = kNow_s - 1;
  CHECK(judge(old, "") == HandshakeResult::kExpired);
  CHECK(policy.Judge(std::string("not PEM"), "").result == HandshakeResult::kUnreadable);
  CHECK(policy.Judge(old, "").cluster.empty());
}

TEST_CASE("peers and denials change while the policy is in use") {
  PeerPolicy policy({"example.org", "paris"}, {"tokyo"}, [] { return kNow_s; });
  policy.SetDenyList({.spki_sha256 = {std::string(64, 'a')}});
  CHECK(policy.Judge(Certificate(kTokyo), "").result == HandshakeResult::kDenied);
  policy.SetDenyList({.issuer_serials = {{"CN=authority", "1f"}}});
  CHECK(policy.Judge(Certificate(kTokyo), "").result == HandshakeResult::kDenied);
  policy.SetDenyList({.issuer_serials = {{"CN=another authority", "1f"}}});
  CHECK(policy.Judge(Certificate(kTokyo), "").result == HandshakeResult::kAccepted);
  policy.SetPeers({"osaka"});
  CHECK(policy.Judge(Certificate(kTokyo), "").result == HandshakeResult::kNotConfigured);
  CHECK(policy.IsPeer("osaka"));
}

TEST_CASE("deny list entries that could never match are refused") {
  CHECK(ValidateDenyList({}).ok());
  CHECK(ValidateDenyList({{std::string(64, 'f')}, {{"CN=a", "0f"}}}).ok());
  CHECK_FALSE(ValidateDenyList({{std::string(64, 'F')}, {}}).ok());
  CHECK_FALSE(ValidateDenyList({{std::string(63, 'f')}, {}}).ok());
  CHECK_FALSE(ValidateDenyList({{}, {{"", "0f"}}}).ok());
  CHECK_FALSE(ValidateDenyList({{}, {{"CN=a", "0F"}}}).ok());
}

TEST_CASE("every result has a name of its own") {
  std::set<std::string> names;
  for (int i = 0; i < kHandshakeResults; ++i) {
    names.insert(HandshakeResultName(static_cast<HandshakeResult>(i)));
  }
  CHECK(names.size() == kHandshakeResults);
}

}  // namespace
}  // namespace causeway::security
