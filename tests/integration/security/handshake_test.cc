// Who gets in and who does not, with real sockets: two gRPC ends of ours, and OpenSSL's client.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "security/tls_policy.h"
#include "tests/integration/security/foreign_client.h"
#include "tests/integration/security/gateway_fixture.h"

namespace causeway::testing {
namespace {

using security::Credentials;
using security::HandshakeRejection;
using security::HandshakeResult;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

uint64_t CountOf(const uint64_t* counts, HandshakeResult result) {
  return counts[static_cast<size_t>(result)];
}

std::vector<std::string> With(const security::CredentialFiles& files,
                              std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"-CAfile", files.authority, "-cert", files.certificate,
                                    "-key",    files.key,       "-alpn", "h2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_CASE("two configured gateways reach each other and know each other's names") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const Answer answer = Call(tokyo.Dial("paris", paris.address()));
  INFO(answer.status.error_message());
  REQUIRE(answer.status.ok());
  CHECK(answer.text == "tokyo");
  CHECK(CountOf(paris.credentials().counts().accepting, HandshakeResult::kAccepted) == 1);
  CHECK(CountOf(tokyo.credentials().counts().dialling, HandshakeResult::kAccepted) == 1);
  // Lanes share one credentials object.
  CHECK(*tokyo.credentials().channel("paris") == *tokyo.credentials().channel("paris"));
  CHECK(Call(tokyo.Dial("paris", paris.address())).status.ok());
  CHECK_FALSE(tokyo.credentials().channel("osaka").ok());
}

TEST_CASE("TLS 1.2 is refused even with a good certificate") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"});
  paris.Serve();
  CHECK(security::CheckTls13Only().ok());
  const std::string old = RunForeignClient(paris.port(), With(site.Files("tokyo"), {"-tls1_2"}));
  INFO(old);
  CHECK(Contains(old, "Cipher is (NONE)"));
  const HandshakeRejection rejection = paris.rejections().WaitFor(
      [](const HandshakeRejection& one) { return one.result == HandshakeResult::kTls; });
  CHECK(rejection.accepting);
  CHECK(Contains(rejection.reason, "protocol version"));
  // The same client with TLS 1.3 gets in: the refusal was for the version.
  const std::string now = RunForeignClient(paris.port(), With(site.Files("tokyo"), {"-tls1_3"}),
                                           "New Session Ticket arrived");
  INFO(now);
  CHECK(Contains(now, "Cipher is TLS_AES"));
  CHECK(CountOf(paris.credentials().counts().accepting, HandshakeResult::kAccepted) == 1);
}

TEST_CASE("a client without a certificate is refused") {
  Site site;
  site.Issue("paris");
  Gateway paris(site, "paris", {"tokyo"});
  paris.Serve();
  RunForeignClient(paris.port(), {"-CAfile", site.File("ca.pem"), "-alpn", "h2"});
  const HandshakeRejection rejection =
      paris.rejections().WaitFor([](const HandshakeRejection& one) { return one.accepting; });
  CHECK(Contains(rejection.reason, "certificate required"));
  CHECK(CountOf(paris.credentials().counts().accepting, HandshakeResult::kAccepted) == 0);
}

TEST_CASE("a client whose certificate has expired is refused by name of the reason") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo", -60, -1);
  Gateway paris(site, "paris", {"tokyo"});
  paris.Serve();
  RunForeignClient(paris.port(), With(site.Files("tokyo")));
  const HandshakeRejection rejection =
      paris.rejections().WaitFor([](const HandshakeRejection& one) { return one.accepting; });
  CHECK(Contains(rejection.reason, "certificate expired"));
  CHECK(CountOf(paris.credentials().counts().accepting, HandshakeResult::kAccepted) == 0);
}

TEST_CASE("a server whose certificate has expired is refused by the one who dialled") {
  Site site;
  site.Issue("paris", -60, -1);
  site.Issue("tokyo");
  // By its own clock, ten days slow, the server's certificate is still good, so it starts.
  constexpr int64_t kSlow_s = -10 * 24 * 3600;
  Gateway paris(site, "paris", {"tokyo"}, kSlow_s), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  TlsEnvironment::Get().SetReceiver(&tokyo.credentials());
  CHECK_FALSE(Call(tokyo.Dial("paris", paris.address())).status.ok());
  const HandshakeRejection rejection =
      tokyo.rejections().WaitFor([](const HandshakeRejection& one) {
        return !one.accepting && !Contains(one.reason, "the peer refused");
      });
  CHECK(Contains(rejection.reason, "certificate has expired"));
  CHECK(CountOf(tokyo.credentials().counts().dialling, HandshakeResult::kAccepted) == 0);
}

TEST_CASE("another authority is refused in both directions") {
  Site site, stranger;
  site.Issue("paris");
  site.Issue("tokyo");
  stranger.Issue("tokyo");
  stranger.Issue("paris");
  Gateway paris(site, "paris", {"tokyo"}), fake(stranger, "tokyo", {"paris"});
  paris.Serve();
  // The stranger's own check of the server fails first; s_client does not mind and goes further.
  CHECK(Call(fake.Dial("paris", paris.address())).status.error_code() ==
        grpc::StatusCode::UNAVAILABLE);
  RunForeignClient(paris.port(), With(stranger.Files("tokyo")));
  const HandshakeRejection rejection = paris.rejections().WaitFor(
      [](const HandshakeRejection& one) { return Contains(one.reason, "unknown CA"); });
  INFO(rejection.reason);
  CHECK(CountOf(paris.credentials().counts().accepting, HandshakeResult::kAccepted) == 0);
}

TEST_CASE("a good certificate of a cluster that is no peer is refused with name and address") {
  Site site;
  site.Issue("paris");
  site.Issue("osaka");
  Gateway paris(site, "paris", {"tokyo"}), osaka(site, "osaka", {"paris"});
  paris.Serve();
  CHECK_FALSE(Call(osaka.Dial("paris", paris.address())).status.ok());
  const HandshakeRejection rejection =
      paris.rejections().WaitFor([](const HandshakeRejection& one) { return one.accepting; });
  CHECK(rejection.result == HandshakeResult::kNotConfigured);
  CHECK(rejection.identity == "spiffe://example.org/gateway/osaka");
  CHECK(rejection.spki_sha256 == osaka.credentials().certificate().spki_sha256);
  INFO(rejection.peer_address);
  CHECK(Contains(rejection.peer_address, "127.0.0.1:"));
  CHECK(Contains(rejection.reason, "osaka is not among the peers of paris"));
}

TEST_CASE("a peer that answers for another is refused by the one who dialled") {
  Site site;
  for (const char* cluster : {"paris", "tokyo", "osaka"}) site.Issue(cluster);
  Gateway osaka(site, "osaka", {"paris"}), paris(site, "paris", {"tokyo", "osaka"});
  osaka.Serve();
  CHECK_FALSE(Call(paris.Dial("tokyo", osaka.address())).status.ok());
  const HandshakeRejection rejection =
      paris.rejections().WaitFor([](const HandshakeRejection& one) { return !one.accepting; });
  CHECK(rejection.result == HandshakeResult::kNotDialled);
  CHECK(rejection.dialled == "tokyo");
  CHECK(rejection.identity == "spiffe://example.org/gateway/osaka");
  CHECK(rejection.peer_address == "127.0.0.1");
  CHECK(Call(paris.Dial("osaka", osaka.address())).status.ok());
}

TEST_CASE("a denied key is refused on live, new and resumed connections") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const auto live = tokyo.Dial("paris", paris.address());
  REQUIRE(Call(live).status.ok());
  const std::string session = site.File("session.pem");
  const std::string first =
      RunForeignClient(paris.port(), With(site.Files("tokyo"), {"-sess_out", session}),
                       "New Session Ticket arrived");
  INFO(first);
  const auto resume = [&] {
    return RunForeignClient(paris.port(), With(site.Files("tokyo"), {"-sess_in", session}));
  };
  REQUIRE(paris.credentials()
              .SetDenyList({.spki_sha256 = {tokyo.credentials().certificate().spki_sha256}})
              .ok());
  CHECK(Call(live).status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK_FALSE(
      paris.credentials()
          .CheckStillAllowed({.cluster = "tokyo", .certificate = tokyo.credentials().certificate()})
          .ok());
  CHECK_FALSE(Call(tokyo.Dial("paris", paris.address())).status.ok());
  const auto denied = [&] {
    return CountOf(paris.credentials().counts().accepting, HandshakeResult::kDenied);
  };
  const uint64_t before = denied();
  CHECK(before >= 1);
  const std::string resumed = resume();
  INFO(resumed);
  CHECK(Contains(resumed, "Reused, TLSv1.3"));
  CHECK(denied() == before + 1);
}

TEST_CASE("issuer and serial can be denied, too") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const security::CertificateInfo info = tokyo.credentials().certificate();
  REQUIRE(paris.credentials().SetDenyList({.issuer_serials = {{info.issuer, info.serial}}}).ok());
  CHECK_FALSE(Call(tokyo.Dial("paris", paris.address())).status.ok());
  REQUIRE(paris.credentials().SetDenyList({}).ok());
  CHECK(Call(tokyo.Dial("paris", paris.address())).status.ok());
  CHECK_FALSE(paris.credentials().SetDenyList({.spki_sha256 = {"not a hash"}}).ok());
}

TEST_CASE("credentials that could only fail later are refused when loaded") {
  Site site, stranger;
  site.Issue("paris");
  stranger.Issue("paris");
  const auto load = [](const security::CredentialFiles& files, const std::string& cluster) {
    return std::string(
        security::LoadCredentialFiles(files, cluster, NowSeconds()).status().message());
  };
  CHECK(load(site.Files("paris"), "paris").empty());
  CHECK(Contains(load(site.Files("paris"), "tokyo"), "cluster paris's, but this gateway"));
  Credentials::Options options;
  options.cluster = "paris";
  options.domain = "example.com";
  options.files = site.Files("paris");
  options.now_s = &NowSeconds;
  CHECK(Contains(std::string(Credentials::Load(options).status().message()), "example.org"));
  security::CredentialFiles files = site.Files("paris");
  files.key = stranger.Files("paris").key;
  CHECK(Contains(load(files, "paris"), "does not belong"));
  files = site.Files("paris");
  files.authority = stranger.Files("paris").authority;
  CHECK(Contains(load(files, "paris"), "must chain to " + files.authority));
  files.authority = files.certificate;
  CHECK(Contains(load(files, "paris"), "is no authority"));
  site.Issue("paris", -60, -1);
  CHECK(Contains(load(site.Files("paris"), "paris"), "expired on 20"));
  site.Issue("paris", 1, 30);
  CHECK(Contains(load(site.Files("paris"), "paris"), "valid only from"));
  site.Issue("paris");
  REQUIRE(chmod(site.Files("paris").key.c_str(), 0640) == 0);
  CHECK(Contains(load(site.Files("paris"), "paris"), "chmod 0600"));
}

}  // namespace
}  // namespace causeway::testing
