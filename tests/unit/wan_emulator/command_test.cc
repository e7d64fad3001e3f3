// The emulator's words: units, settings, control commands, options.
#include "tests/wan/emulator/command.h"

#include <getopt.h>

#include <catch2/catch.hpp>

#include "tests/wan/emulator/options.h"

namespace causeway::wan_emulator {
namespace {

Network TwoSites() {
  return Network(Topology::kMesh,
                 {{"paris", {*ParseAddress("10.77.0.1")}}, {"tokyo", {*ParseAddress("fd77::2")}}},
                 1);
}

TEST_CASE("units") {
  CHECK(*ParseRate("100mbit") == 1e8);
  CHECK(*ParseRate("1.5gbit") == 1.5e9);
  CHECK(*ParseRate("unlimited") == 0);
  CHECK(*ParseDuration("50ms") == 50'000'000);
  CHECK(*ParseDuration("2s") == 2'000'000'000);
  CHECK(*ParseBytes("4MiB") == 4 << 20);
  for (const char* bad : {"", "mbit", "-1mbit", "1mb", "1e99gbit", "nan"})
    CHECK_FALSE(ParseRate(bad).ok());
  CHECK_FALSE(ParseDuration("50").ok());
  CHECK_FALSE(ParseAddress("10.77.0").ok());
}

TEST_CASE("a setting reaches the named direction alone; a bad one changes nothing") {
  Network network = TwoSites();
  CHECK(RunCommand("set paris>tokyo rate=1mbit loss=0.5%", network, 0).json == "{\"ok\":true}");
  std::string stats = RunCommand("stats", network, 0).json;
  CHECK(stats.find("\"from\":\"paris\",\"to\":\"tokyo\",\"rate_bits_per_second\":1e+06") !=
        std::string::npos);
  CHECK(stats.find("\"from\":\"tokyo\",\"to\":\"paris\",\"rate_bits_per_second\":0") !=
        std::string::npos);
  for (const char* bad :
       {"set", "set *", "set paris rate=1mbit", "set a>b rate=1mbit", "set * rate",
        "set * delay=1s rate=x", "set * dark=2", "what \"is\" this\\"}) {
    INFO(bad);
    CHECK(RunCommand(bad, network, 0).json.find("{\"error\":\"") == 0);
  }
  CHECK(RunCommand("stats", network, 0).json == stats);
  CHECK(RunCommand("quit", network, 0).quit);
}

absl::StatusOr<Options> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "wan_emulator");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  optind = 0;
  opterr = 0;
  return ParseOptions(static_cast<int>(words.size()), argv.data());
}

TEST_CASE("options") {
  const std::string paris = "--site=name=paris,netns=/run/netns/a,address=10.77.0.1";
  const std::string tokyo = "--site=name=tokyo,netns=/run/netns/b,address=10.77.0.2,device=wan1";
  const absl::StatusOr<Options> options = Parse({paris, tokyo, "--topology=star", "--no-offload"});
  REQUIRE(options.ok());
  CHECK(options->sites[1].device == "wan1");
  CHECK(options->topology == Topology::kStar);
  CHECK_FALSE(options->offload);
  CHECK_FALSE(Parse({paris}).ok());
  CHECK_FALSE(Parse({paris, "--site=name=Tokyo,netns=x,address=10.0.0.1"}).ok());
  CHECK_FALSE(Parse({paris, "--site=name=core,netns=x,address=10.0.0.1"}).ok());
  CHECK_FALSE(Parse({paris, tokyo, "--speed=1"}).ok());
  CHECK_FALSE(Parse({paris, tokyo, "extra"}).ok());
  CHECK(Parse({"--help"})->help);
}

}  // namespace
}  // namespace causeway::wan_emulator
