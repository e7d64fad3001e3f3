// `causeway pki` as an operator types it, in a directory of its own and at a chosen time.
#include "daemon/cli/pki/pki_commands.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "security/certificate.h"
#include "security/secure_files.h"
#include "tests/unit/security/temporary_directory.h"

namespace causeway::cli {
namespace {

using security::ReadPublicFile;
using security::ReadSecretFile;
using testing::TemporaryDirectory;

constexpr int64_t kNow_s = 1'800'000'000;

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Outcome Run(std::vector<std::string> words, int64_t now_s = kNow_s) {
  std::ostringstream out, err;
  CLI::App app("causeway");
  AddPkiCommands(app, {&out, &err, [now_s] { return now_s; }});
  Outcome outcome;
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 pops from the back
    reversed.push_back("pki");
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    outcome.exit_code = error.get_exit_code();
  }
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

bool Contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

mode_t ModeOf(const std::string& path) {
  struct stat about = {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

TEST_CASE("init and issue give a directory that a gateway can start from") {
  const TemporaryDirectory directory;
  const std::string pki = directory.File("pki");
  REQUIRE(Run({"init", "--domain", "example.org", "--directory", pki}).exit_code == 0);
  CHECK(ModeOf(pki + "/ca.key") == 0600);
  CHECK(ModeOf(pki + "/ca.pem") == 0644);
  const Outcome issued =
      Run({"issue", "paris", "--directory", pki, "--dns", "gateway.paris.example.org"});
  INFO(issued.err);
  REQUIRE(issued.exit_code == 0);
  CHECK(Contains(issued.out, "wrote " + pki + "/paris/gateway.key"));
  CHECK(ModeOf(pki + "/paris/gateway.key") == 0600);
  CHECK(*ReadPublicFile(pki + "/paris/ca.pem") == *ReadPublicFile(pki + "/ca.pem"));
  const std::string certificate = *ReadPublicFile(pki + "/paris/gateway.pem");
  CHECK(security::CheckKeyMatches(*ReadSecretFile(pki + "/paris/gateway.key"), certificate).ok());
  CHECK(security::VerifyChain(certificate, *ReadPublicFile(pki + "/ca.pem"),
                              security::CertificateUse::kServer, kNow_s)
            .ok());
  // Into the authority's own directory, as the example configuration has it: ca.pem is there.
  CHECK(Run({"issue", "tokyo", "--directory", pki, "--out", pki}).exit_code == 0);
}

TEST_CASE("nothing is replaced unasked") {
  const TemporaryDirectory directory;
  const std::string pki = directory.path();
  REQUIRE(Run({"init", "--directory", pki}).exit_code == 0);
  const std::string authority = *ReadPublicFile(pki + "/ca.pem");
  const Outcome again = Run({"init", "--directory", pki});
  CHECK(again.exit_code == 74);
  CHECK(Contains(again.err, "never replaced"));
  CHECK(*ReadPublicFile(pki + "/ca.pem") == authority);

  REQUIRE(Run({"issue", "paris", "--directory", pki}).exit_code == 0);
  const std::string first = *ReadPublicFile(pki + "/paris/gateway.pem");
  CHECK(Contains(Run({"issue", "paris", "--directory", pki}).err, "--force"));
  CHECK(*ReadPublicFile(pki + "/paris/gateway.pem") == first);
  CHECK(Run({"issue", "paris", "--directory", pki, "--force"}).exit_code == 0);
  CHECK(*ReadPublicFile(pki + "/paris/gateway.pem") != first);

  const std::string other = directory.File("other");
  REQUIRE(Run({"init", "--directory", other}).exit_code == 0);
  const Outcome mixed = Run({"issue", "paris", "--directory", other, "--out", pki});
  CHECK(Contains(mixed.err, "another authority"));
  CHECK_FALSE(ReadPublicFile(pki + "/gateway.pem").ok());
}

TEST_CASE("only the request travels") {
  const TemporaryDirectory directory;
  const std::string pki = directory.File("pki"), gateway = directory.File("gateway");
  REQUIRE(Run({"init", "--domain", "example.org", "--directory", pki}).exit_code == 0);
  REQUIRE(Run({"request", "tokyo", "--domain", "example.org", "--out", gateway}).exit_code == 0);
  CHECK(ModeOf(gateway + "/gateway.key") == 0600);
  const std::string csr = gateway + "/gateway.csr";
  const Outcome wrong = Run({"sign", csr, "--cluster", "paris", "--directory", pki});
  CHECK(wrong.exit_code == 78);
  CHECK(Contains(wrong.err, "asks for cluster tokyo, not paris"));
  REQUIRE(Run({"sign", csr, "--cluster", "tokyo", "--directory", pki, "--days", "7"}).exit_code ==
          0);
  const std::string certificate = *ReadPublicFile(pki + "/tokyo/gateway.pem");
  CHECK(security::CheckKeyMatches(*ReadSecretFile(gateway + "/gateway.key"), certificate).ok());
  CHECK(security::DescribeCertificate(certificate)->not_after_s == kNow_s + 7 * 24 * 3600);
}

TEST_CASE("show explains certificates and their keys") {
  const TemporaryDirectory directory;
  const std::string pki = directory.path();
  REQUIRE(Run({"init", "--domain", "example.org", "--directory", pki}).exit_code == 0);
  REQUIRE(Run({"issue", "paris", "--directory", pki, "--out", pki}).exit_code == 0);
  const Outcome text = Run({"show", pki});
  REQUIRE(text.exit_code == 0);
  CHECK(Contains(text.out, "spiffe://example.org/gateway/paris"));
  CHECK(Contains(text.out, "30 days left"));
  CHECK(Contains(text.out, "mode 0600, belongs to the certificate"));
  CHECK_FALSE(Contains(text.out, "PRIVATE KEY"));
  const Outcome json = Run({"show", pki + "/gateway.pem", "--json"});
  REQUIRE(json.exit_code == 0);
  CHECK(Contains(json.out, "\"kind\":\"gateway\""));
  CHECK(Contains(json.out, "\"days_left\":30"));
  CHECK(Contains(json.out, "\"mode\":\"0600\",\"usable\":true"));
  REQUIRE(chmod((pki + "/gateway.key").c_str(), 0644) == 0);
  CHECK(Contains(Run({"show", pki}).out, "chmod 0600"));
  CHECK(Contains(Run({"show", pki}, kNow_s + 32 * 24 * 3600).out, "EXPIRED 2 days ago"));
}

TEST_CASE("errors say what is wrong and end with the right code") {
  const TemporaryDirectory directory;
  const std::string pki = directory.path();
  const Outcome none = Run({"issue", "paris", "--directory", pki});
  CHECK(none.exit_code == 74);
  CHECK(Contains(none.err, "causeway pki init"));
  CHECK(Run({"init", "--directory", pki, "--domain", "Not A Domain"}).exit_code == 64);
  CHECK(Run({"init", "--directory", pki, "--days", "0"}).exit_code == 64);
  REQUIRE(Run({"init", "--directory", pki}).exit_code == 0);
  CHECK(Run({"issue", "../evil", "--directory", pki}).exit_code == 64);
  CHECK(Run({"issue", "paris", "--directory", pki, "--days", "9999"}).exit_code == 64);
  CHECK(Run({"issue", "paris", "--directory", pki, "--owner", "no-such-user"}).exit_code == 74);
  REQUIRE(chmod((pki + "/ca.key").c_str(), 0640) == 0);
  CHECK(Run({"issue", "paris", "--directory", pki}).exit_code == 77);
  CHECK(Run({"show", directory.File("none")}).exit_code == 74);
}

}  // namespace
}  // namespace causeway::cli
