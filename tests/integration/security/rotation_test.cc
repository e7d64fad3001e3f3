// Certificates that change while connections live.
#include <catch2/catch.hpp>
#include <string>

#include "security/secure_files.h"
#include "tests/integration/security/gateway_fixture.h"

namespace causeway::testing {
namespace {

// gRPC's watcher looks once a second: dials anew until one meets the new certificate.
bool EventuallyDenied(Gateway* dialler, Gateway* server) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    if (!Call(dialler->Dial("paris", server->address())).status.ok()) return true;
  }
  return false;
}

TEST_CASE("a reloaded certificate serves new handshakes, and live connections go on") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const auto live = tokyo.Dial("paris", paris.address());
  REQUIRE(Call(live).status.ok());
  const std::string old_key = paris.credentials().certificate().spki_sha256;

  site.Issue("paris");
  REQUIRE(paris.credentials().Reload().ok());
  const std::string new_key = paris.credentials().certificate().spki_sha256;
  CHECK(new_key != old_key);
  // The dialler denies the new key alone: a refusal shows which certificate the server presented.
  REQUIRE(tokyo.credentials().SetDenyList({.spki_sha256 = {new_key}}).ok());
  CHECK(EventuallyDenied(&tokyo, &paris));
  REQUIRE(tokyo.credentials().SetDenyList({.spki_sha256 = {old_key}}).ok());
  CHECK(Call(tokyo.Dial("paris", paris.address())).status.ok());
  CHECK(Call(live).status.ok());
}

TEST_CASE("a reload that would break is refused and changes nothing") {
  Site site, stranger;
  site.Issue("paris");
  site.Issue("tokyo");
  stranger.Issue("paris");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const security::CertificateInfo before = paris.credentials().certificate();
  const std::string key = *security::ReadSecretFile(site.File("paris.key"));
  const std::string foreign = *security::ReadSecretFile(stranger.File("paris.key"));
  REQUIRE(security::WriteFileAtomically(site.File("paris.key"), foreign,
                                        {.mode = 0600, .overwrite = true})
              .ok());
  CHECK_FALSE(paris.credentials().Reload().ok());
  CHECK(paris.credentials().certificate().serial == before.serial);
  CHECK(Call(tokyo.Dial("paris", paris.address())).status.ok());
  REQUIRE(
      security::WriteFileAtomically(site.File("paris.key"), key, {.mode = 0600, .overwrite = true})
          .ok());
  site.Issue("paris", -60, -1);
  CHECK_FALSE(paris.credentials().Reload().ok());
  CHECK(Call(tokyo.Dial("paris", paris.address())).status.ok());
}

TEST_CASE("a peer removed from the configuration is refused on its live connection") {
  Site site;
  site.Issue("paris");
  site.Issue("tokyo");
  Gateway paris(site, "paris", {"tokyo"}), tokyo(site, "tokyo", {"paris"});
  paris.Serve();
  const auto live = tokyo.Dial("paris", paris.address());
  REQUIRE(Call(live).status.ok());
  paris.credentials().SetPeers({"osaka"});
  const Answer answer = Call(live);
  CHECK(answer.status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(answer.status.error_message() == "cluster tokyo is not among the peers of paris");
}

TEST_CASE("a certificate past half its life is a warning with its date") {
  Site site;
  site.Issue("paris", -20, 10);
  Gateway paris(site, "paris", {"tokyo"});
  const auto warnings = paris.credentials().Warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().find(security::FormatTime(
            paris.credentials().certificate().not_after_s)) != std::string::npos);
  site.Issue("paris");
  REQUIRE(paris.credentials().Reload().ok());
  CHECK(paris.credentials().Warnings().empty());
}

}  // namespace
}  // namespace causeway::testing
