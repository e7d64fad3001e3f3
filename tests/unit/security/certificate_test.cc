// Certificates made by pki.h, read and judged by certificate.h.
#include "security/certificate.h"

#include <catch2/catch.hpp>
#include <string>

#include "security/pki.h"

namespace causeway::security {
namespace {

constexpr int64_t kNow_s = 1'800'000'000;  // 2027-01-15
constexpr int64_t kDay_s = 24 * 3600;

KeyAndCertificate Authority(const std::string& domain = "example.org") {
  absl::StatusOr<KeyAndCertificate> made =
      MakeAuthority(domain, ValidityFrom(kNow_s, kAuthorityDays));
  REQUIRE(made.ok());
  return *made;
}

KeyAndCertificate Leaf(const KeyAndCertificate& authority, const std::string& cluster = "paris") {
  absl::StatusOr<KeyAndCertificate> made =
      IssueLeaf(authority, {.identity = {"example.org", cluster},
                            .dns_names = {"gateway.example.org"},
                            .validity = ValidityFrom(kNow_s, kLeafDays)});
  REQUIRE(made.ok());
  return *made;
}

bool Mentions(const absl::Status& status, const std::string& words) {
  INFO(status.message());
  return std::string(status.message()).find(words) != std::string::npos;
}

TEST_CASE("a leaf says who it is and chains to its authority both ways") {
  const KeyAndCertificate authority = Authority();
  const KeyAndCertificate leaf = Leaf(authority);
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(leaf.certificate_pem);
  REQUIRE(info.ok());
  CHECK(info->subject == "CN=paris");
  CHECK(info->issuer == "CN=Causeway authority example.org");
  CHECK(info->dns_names == std::vector<std::string>{"gateway.example.org"});
  CHECK(info->not_before_s == kNow_s - 3600);
  CHECK(info->not_after_s == kNow_s + kLeafDays * kDay_s);
  CHECK(info->spki_sha256.size() == 64);
  CHECK(info->serial.size() == 32);
  CHECK_FALSE(info->is_authority);
  REQUIRE(CertificateIdentity(*info).ok());
  CHECK(*CertificateIdentity(*info) == Identity{"example.org", "paris"});
  for (CertificateUse use : {CertificateUse::kServer, CertificateUse::kClient}) {
    CHECK(VerifyChain(leaf.certificate_pem, authority.certificate_pem, use, kNow_s).ok());
  }
  CHECK(CheckKeyMatches(leaf.key_pem, leaf.certificate_pem).ok());
}

TEST_CASE("an authority is one, and no gateway") {
  const KeyAndCertificate authority = Authority();
  absl::StatusOr<CertificateInfo> info = DescribeCertificate(authority.certificate_pem);
  REQUIRE(info.ok());
  CHECK(info->is_authority);
  CHECK_FALSE(CertificateIdentity(*info).ok());
  CHECK(*AuthorityDomain(authority.certificate_pem) == "example.org");
  CHECK_FALSE(AuthorityDomain(Leaf(authority).certificate_pem).ok());
}

TEST_CASE("chains that must not verify") {
  const KeyAndCertificate authority = Authority();
  const KeyAndCertificate stranger = Authority();  // the same name, another key
  const KeyAndCertificate leaf = Leaf(authority);
  const auto verify = [&](const std::string& anchors, int64_t now_s) {
    return VerifyChain(leaf.certificate_pem, anchors, CertificateUse::kServer, now_s);
  };
  CHECK_FALSE(verify(stranger.certificate_pem, kNow_s).ok());
  CHECK_FALSE(verify(leaf.certificate_pem, kNow_s).ok());  // no partial chains
  CHECK_FALSE(verify("", kNow_s).ok());
  const absl::Status expired = verify(authority.certificate_pem, kNow_s + 31 * kDay_s);
  CHECK(Mentions(expired, "expired"));
  CHECK(Mentions(expired, FormatTime(kNow_s + kLeafDays * kDay_s)));
  CHECK(Mentions(expired, "CN=paris"));
  const absl::Status early = verify(authority.certificate_pem, kNow_s - kDay_s);
  CHECK(Mentions(early, "clock"));
}

TEST_CASE("a leaf cannot sign a leaf") {
  const KeyAndCertificate authority = Authority();
  const KeyAndCertificate leaf = Leaf(authority);
  CHECK_FALSE(IssueLeaf(leaf, {.identity = {"example.org", "tokyo"},
                               .validity = ValidityFrom(kNow_s, kLeafDays)})
                  .ok());
}

TEST_CASE("leaves that an authority refuses to issue") {
  const KeyAndCertificate authority = Authority();
  const Validity month = ValidityFrom(kNow_s, kLeafDays);
  const auto issue = [&](const LeafOptions& options) {
    return IssueLeaf(authority, options).status();
  };
  CHECK(Mentions(issue({{"other.org", "paris"}, {}, month}), "domain example.org"));
  CHECK_FALSE(issue({{"example.org", "Paris"}, {}, month}).ok());
  CHECK_FALSE(issue({{"example.org", "paris"}, {"a,URI:spiffe://b/gateway/c"}, month}).ok());
  CHECK_FALSE(issue({{"example.org", "paris"},
                     std::vector<std::string>(kDnsNamesMax + 1, "a.example.org"),
                     month})
                  .ok());
  CHECK(Mentions(issue({{"example.org", "paris"}, {}, ValidityFrom(kNow_s, kAuthorityDays + 1)}),
                 "authority ends on"));
  CHECK_FALSE(IssueLeaf({Authority().key_pem, authority.certificate_pem},
                        {{"example.org", "paris"}, {}, month})
                  .ok());
}

TEST_CASE("a request is signed without its key") {
  const KeyAndCertificate authority = Authority();
  absl::StatusOr<KeyAndRequest> made =
      MakeRequest({"example.org", "tokyo"}, {"gateway.tokyo.example.org"});
  REQUIRE(made.ok());
  absl::StatusOr<RequestInfo> asked = DescribeRequest(made->request_pem);
  REQUIRE(asked.ok());
  CHECK(asked->identity == Identity{"example.org", "tokyo"});
  absl::StatusOr<std::string> certificate =
      SignRequest(authority, made->request_pem, ValidityFrom(kNow_s, kLeafDays));
  REQUIRE(certificate.ok());
  CHECK(CheckKeyMatches(made->key_pem, *certificate).ok());
  CHECK(VerifyChain(*certificate, authority.certificate_pem, CertificateUse::kClient, kNow_s).ok());
  CHECK(CertificateIdentity(*DescribeCertificate(*certificate))->cluster == "tokyo");
  CHECK_FALSE(
      SignRequest(Authority("other.org"), made->request_pem, ValidityFrom(kNow_s, kLeafDays)).ok());
}

TEST_CASE("a request altered after signing is refused") {
  absl::StatusOr<KeyAndRequest> made = MakeRequest({"example.org", "tokyo"}, {});
  REQUIRE(made.ok());
  size_t changed = 0;
  for (size_t i = 30; i + 40 < made->request_pem.size(); ++i) {
    std::string altered = made->request_pem;
    if (altered[i] == '\n') continue;
    altered[i] = altered[i] == 'A' ? 'B' : 'A';
    if (altered == made->request_pem) continue;
    ++changed;
    INFO("byte " << i);
    absl::StatusOr<RequestInfo> info = DescribeRequest(altered);
    // Base64's unused bits and the header's own text may change without changing a signed byte.
    if (info.ok()) CHECK(info->identity.cluster == "tokyo");
  }
  CHECK(changed > 100);
  std::string middle = made->request_pem;
  const size_t at = middle.find('\n') + 40;  // inside the subject and key
  middle[at] = middle[at] == 'A' ? 'B' : 'A';
  CHECK_FALSE(DescribeRequest(middle).ok());
}

TEST_CASE("damaged and oversized PEM is refused") {
  const KeyAndCertificate leaf = Leaf(Authority());
  CHECK_FALSE(DescribeCertificate("").ok());
  CHECK_FALSE(DescribeCertificate(leaf.key_pem).ok());
  CHECK_FALSE(DescribeCertificate(leaf.certificate_pem.substr(0, 300)).ok());
  std::string damaged = leaf.certificate_pem;
  damaged.replace(damaged.find('\n') + 1, 8, "AAAAAAAA");
  CHECK_FALSE(DescribeCertificate(damaged).ok());
  std::string many;
  for (size_t i = 0; i <= kChainCertificatesMax; ++i) many += leaf.certificate_pem;
  CHECK_FALSE(DescribeCertificate(many).ok());
  CHECK_FALSE(DescribeCertificate(std::string(kPemBytesMax + 1, 'x')).ok());
  CHECK_FALSE(CheckKeyMatches(Leaf(Authority()).key_pem, leaf.certificate_pem).ok());
  CHECK_FALSE(CheckKeyMatches("", leaf.certificate_pem).ok());
}

}  // namespace
}  // namespace causeway::security
