// Files that nobody meant: random damage must end in an answer, never in a crash or without bound.
#include <catch2/catch.hpp>
#include <random>

#include "sample.h"

namespace causeway::config {
namespace {

std::string Damage(std::string text, std::mt19937_64& random) {
  const std::string_view spice = "{}[]:,-#&*!|>'\"%@`\n\t ?~0aé";
  const int edits = 1 + static_cast<int>(random() % 8);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.insert(at, 1, spice[random() % spice.size()]);
        break;
      case 2:
        text.erase(at, 1 + random() % 20);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 60));
        break;
    }
  }
  return text;
}

TEST_CASE("random damage to a valid file") {
  const uint64_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const std::string sample = testing::Join(testing::SampleLines());
  for (int i = 0; i < 3000; ++i) {
    const std::string text = Damage(sample, random);
    const ParseResult result = testing::ParseSample(text);
    INFO(text);
    REQUIRE(result.ok() == result.errors.empty());
    for (const Diagnostic& error : result.errors) REQUIRE_FALSE(error.message.empty());
  }
}

TEST_CASE("many values are refused before they take memory") {
  std::string text = "peers: [";
  for (int i = 0; i < 200'000; ++i) text += "1,";
  const ParseResult result = testing::ParseSample(text + "]\n");
  REQUIRE(result.errors.size() == 1);
  CHECK(result.errors[0].message == "more than 100000 values in one file");
}

TEST_CASE("long lists are refused as a whole") {
  std::string peers = "peers: [";
  for (int i = 0; i < kPeersMax + 1; ++i) peers += "{cluster: c" + std::to_string(i) + "}, ";
  std::vector<std::string> lines = testing::SampleLines();
  lines.erase(lines.begin() + 7, lines.begin() + 9);
  lines[6] = peers + "]";
  const ParseResult result = testing::ParseSample(testing::Join(lines));
  REQUIRE_FALSE(result.errors.empty());
  CHECK(result.errors[0].message == "64 entries; at most 63 are supported");
}

}  // namespace
}  // namespace causeway::config
