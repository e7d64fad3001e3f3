// Identities: one spelling, exactly inverted, everything else refused.
#include "security/identity.h"

#include <catch2/catch.hpp>
#include <string>

namespace causeway::security {
namespace {

TEST_CASE("an identity survives formatting and parsing") {
  const Identity identity{"train.example.org", "paris-2"};
  const std::string uri = FormatIdentity(identity);
  CHECK(uri == "spiffe://train.example.org/gateway/paris-2");
  REQUIRE(ParseIdentity(uri).ok());
  CHECK(*ParseIdentity(uri) == identity);
}

TEST_CASE("other spellings of an identity are refused") {
  for (const char* uri : {
           "",
           "spiffe://",
           "spiffe://example.org",
           "spiffe://example.org/gateway/",
           "spiffe://example.org/gateway/paris/",
           "spiffe://example.org/gateway/paris?x",
           "spiffe://example.org/gateway/paris#x",
           "spiffe://example.org:443/gateway/paris",
           "spiffe://user@example.org/gateway/paris",
           "spiffe://EXAMPLE.org/gateway/paris",
           "spiffe://example.org/Gateway/paris",
           "spiffe://example.org/gateway/p%61ris",
           "spiffe://example.org//gateway/paris",
           "https://example.org/gateway/paris",
           "spiffe:///gateway/paris",
           "spiffe://example..org/gateway/paris",
           "spiffe://example.org./gateway/paris",
           " spiffe://example.org/gateway/paris",
           "spiffe://example.org/gateway/paris\n",
           "spiffe://example.org/trainer/paris",
       }) {
    INFO(uri);
    CHECK(ParseIdentity(uri).status().code() == absl::StatusCode::kInvalidArgument);
  }
  const std::string with_nul("spiffe://example.org/gateway/paris\0x", 36);
  CHECK_FALSE(ParseIdentity(with_nul).ok());
}

TEST_CASE("cluster names are DNS labels") {
  for (const char* name : {"a", "0", "paris", "eu-west-1", "x--y"})
    CHECK(ValidateClusterName(name).ok());
  CHECK(ValidateClusterName(std::string(kClusterNameLengthMax, 'a')).ok());
  CHECK_FALSE(ValidateClusterName(std::string(kClusterNameLengthMax + 1, 'a')).ok());
  for (const char* name : {"", "-a", "a-", "Paris", "a.b", "a_b", "a b", "a/b", "é"}) {
    INFO(name);
    CHECK_FALSE(ValidateClusterName(name).ok());
  }
}

TEST_CASE("a refusal names the fault and shows no control characters") {
  const std::string message(ValidateClusterName("Pa\x1b[31mris").message());
  CHECK(message.find("\"Pa?[31mris\"") != std::string::npos);
  CHECK(message.find("\"P\"") != std::string::npos);
  CHECK(message.find('\x1b') == std::string::npos);
  const std::string domain(ValidateDomain("example.Org").message());
  CHECK(domain.find("the label at character 9") != std::string::npos);
}

TEST_CASE("domains are at most 253 characters of labels") {
  std::string domain;
  while (domain.size() + 2 <= kDomainLengthMax) domain += "a.";
  domain += "a";
  REQUIRE(domain.size() == kDomainLengthMax);
  CHECK(ValidateDomain(domain).ok());
  CHECK_FALSE(ValidateDomain(domain + "a" + domain).ok());
  CHECK_FALSE(ValidateDomain("").ok());
  CHECK_FALSE(ValidateDomain(".").ok());
}

}  // namespace
}  // namespace causeway::security
