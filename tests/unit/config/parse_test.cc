// What valid files become.
#include <catch2/catch.hpp>

#include "sample.h"

namespace causeway::config {
namespace {

using testing::Join;
using testing::ParseSample;
using testing::SampleLines;
using testing::With;
using testing::WithTop;

TEST_CASE("the sample") {
  const ParseResult result = ParseSample(Join(SampleLines()));
  INFO(result.ErrorText());
  REQUIRE(result.ok());
  CHECK(result.warnings.empty());
  const Config& config = *result.config;
  CHECK(config.cluster == "paris");
  CHECK(config.listen == "[::]:7443");
  CHECK(config.tls.key == "/pki/gateway.key");
  REQUIRE(config.peers.size() == 2);
  CHECK(config.peers[0].address == "tokyo.example.org:7443");
  CHECK(config.peers[1].address.empty());
  REQUIRE(config.runs.size() == 1);
  const Run& run = config.runs[0];
  CHECK(run.clusters == std::vector<std::string>{"paris", "tokyo"});
  CHECK(run.seed == "paris");
  CHECK(run.primary.empty());
  CHECK(run.algorithm.rule == Rule::kNesterov);
  CHECK(run.algorithm.learning_rate == 0.7);
  CHECK(run.algorithm.momentum == 0.5);
  CHECK(run.algorithm.local_steps == 20);
  CHECK(run.algorithm.fragments == 4);
  CHECK_FALSE(run.algorithm.delay.has_value());
  CHECK(run.codec.kind == "int4:b64:ef");
  CHECK(run.codec.error_feedback);
}

TEST_CASE("defaults are those of Config") {
  const Config defaults;
  const ParseResult result = ParseSample(Join(SampleLines()));
  REQUIRE(result.ok());
  CHECK(result.config->peer_timeout_ms == defaults.peer_timeout_ms);
  CHECK(result.config->lanes == defaults.lanes);
  CHECK(result.config->memory_bytes == defaults.memory_bytes);
  CHECK(result.config->trainers.socket == defaults.trainers.socket);
  CHECK(result.config->trainers.mode == defaults.trainers.mode);
  CHECK(result.config->admin_socket == defaults.admin_socket);
  CHECK(result.config->state_directory == defaults.state_directory);
  CHECK(result.config->metrics_listen.empty());
}

TEST_CASE("ways to peers") {
  const ParseResult result = ParseSample(
      With(9,
           "  - {cluster: oslo, relay: tokyo, rate_limit: 1.5gbit}\n"
           "  - cluster: rome\n"
           "relay: [[rome, oslo]]\nlanes: auto\nadvertise: \"gw.paris.example.org:7443\""));
  INFO(result.ErrorText());
  REQUIRE(result.ok());
  CHECK(result.config->peers[1].relay == "tokyo");
  CHECK(result.config->peers[1].rate_limit_bits == 1'500'000'000);
  CHECK(result.config->peers[2].rate_limit_bits == 0);
  REQUIRE(result.config->relay.size() == 1);
  CHECK(result.config->relay[0] == std::pair<std::string, std::string>("oslo", "rome"));
  CHECK(result.config->lanes == 0);
  CHECK(result.config->advertise == "gw.paris.example.org:7443");
  CHECK(ParseSample(WithTop("lanes: 7")).config->lanes == 7);
}

TEST_CASE("values in every form") {
  const auto parse = [](const std::string& line) {
    const ParseResult result = ParseSample(WithTop(line));
    INFO(result.ErrorText());
    REQUIRE(result.ok());
    return *result.config;
  };
  CHECK(parse("peer_timeout: 1.5s").peer_timeout_ms == 1500);
  CHECK(parse("peer_timeout: 2m").peer_timeout_ms == 120'000);
  CHECK(parse("memory: 512MiB").memory_bytes == int64_t{512} << 20);
  CHECK(parse("memory: 1.5GiB").memory_bytes == int64_t{3} << 29);
  CHECK(parse("trainers: {mode: 0600}").trainers.mode == 0600);
  CHECK(parse("trainers: {mode: \"0600\"}").trainers.mode == 0600);
  CHECK(parse("metrics: {listen: \"127.0.0.1:9464\"}").metrics_listen == "127.0.0.1:9464");
  CHECK(parse("admin: {socket: /x/a.sock, group: wheel}").admin_group == "wheel");
  CHECK(parse("log: {level: debug, format: json}").log_format == "json");
  CHECK(parse("workers: 3").workers == 3);
  CHECK(parse("workers: 3").gpu == Gpu::kAuto);
  CHECK(parse("gpu: required").gpu == Gpu::kRequired);
  CHECK(parse("gpu: off").gpu == Gpu::kOff);
}

TEST_CASE("delay by number and wait_timeout") {
  const ParseResult number = ParseSample(With(19, "      delay: 19"));
  REQUIRE(number.ok());
  CHECK(number.config->runs[0].algorithm.delay == 19u);
  const ParseResult absent = ParseSample(With(19, "    wait_timeout: 30s"));
  REQUIRE(absent.ok());
  CHECK(absent.config->runs[0].algorithm.delay == 0u);
  CHECK(absent.config->runs[0].wait_timeout_ms == 30'000);
}

Algorithm ParseAlgorithm(const std::string& algorithm) {
  std::vector<std::string> lines = SampleLines();
  lines.erase(lines.begin() + 13, lines.begin() + 19);
  lines.at(12) = "    algorithm: " + algorithm;
  const ParseResult result = ParseSample(Join(lines));
  INFO(result.ErrorText());
  REQUIRE(result.ok());
  return result.config->runs[0].algorithm;
}

TEST_CASE("what each rule takes") {
  const Algorithm co2 = ParseAlgorithm(
      "{rule: co2, learning_rate: 0.5, momentum: 0.2, clip: 0.1, penalty: gap, penalty_window: 8, "
      "local_steps: 25}");
  CHECK(co2.rule == Rule::kCo2);
  CHECK(co2.clip == 0.1);
  CHECK(co2.gap_penalty);
  CHECK(co2.penalty_window == 8);
  CHECK(co2.round_late);
  CHECK(co2.delay == 25u);
  const Algorithm blocking =
      ParseAlgorithm("{rule: co2, learning_rate: 0.5, penalty: 2, local_steps: 25, delay: 0}");
  CHECK_FALSE(blocking.round_late);
  CHECK(blocking.delay == 0u);
  CHECK(blocking.penalty == 2);
  CHECK(ParseAlgorithm("{rule: eager, learning_rate: 0.7, momentum: 0.5}").round_late);
  const Algorithm sparse = ParseAlgorithm(
      "{rule: sparseloco, learning_rate: 1, final_learning_rate: 0.5, schedule_rounds: 40}");
  CHECK(sparse.final_learning_rate == 0.5);
  CHECK(sparse.schedule_rounds == 40);
  CHECK(ParseAlgorithm("{rule: sparseloco, learning_rate: 0.8}").final_learning_rate == 0.8);
  CHECK_FALSE(sparse.mean_of_senders);
  CHECK(ParseAlgorithm("{rule: sparseloco, learning_rate: 1, mean: senders}").mean_of_senders);
  const Algorithm mixed =
      ParseAlgorithm("{rule: average, local_steps: 8, delay: 2, mix: 0.5, normalise: steps}");
  CHECK(mixed.mix == 0.5);
  CHECK(mixed.normalise_steps);
}

TEST_CASE("local steps of each cluster, in the order of names") {
  const Algorithm a = ParseAlgorithm("{rule: average, local_steps: {tokyo: 30, paris: 10}}");
  CHECK(a.steps_of == std::vector<uint32_t>{10, 30});
  CHECK(a.local_steps == 10);  // of paris, which this is
}

TEST_CASE("codec auto: a ladder that begins at its last rung, with error feedback unless told") {
  const auto codec = [](const std::string& line) {
    const ParseResult result = ParseSample(With(20, line));
    INFO(result.ErrorText());
    REQUIRE(result.ok());
    return result.config->runs[0].codec;
  };
  const Codec plain = codec("    codec: {kind: auto}");
  CHECK(plain.kind == "int4:b64:ef:zstd");
  CHECK(plain.error_feedback);
  CHECK(plain.ladder ==
        std::vector<std::string>{"fp32:ef", "bf16:ef", "int8:b256:ef:zstd", "int4:b64:ef:zstd"});
  const Codec cut = codec("    codec: {kind: auto, min: int8, max: sign, error_feedback: false}");
  CHECK(cut.ladder ==
        std::vector<std::string>{"int8:b256:zstd", "int4:b64:zstd", "2bit:b256", "sign:b256"});
  CHECK(cut.kind == "sign:b256");
  CHECK_FALSE(cut.error_feedback);
  CHECK_FALSE(plain.residual_fp32);
  CHECK(codec("    codec: {kind: \"int4:ef\", residual: fp32}").residual_fp32);
  CHECK(codec("    codec: {kind: auto, residual: fp32}").residual_fp32);
  CHECK(codec("    codec: {kind: int4}").ladder.empty());
}

TEST_CASE("a route is chosen, or named") {
  CHECK(ParseSample(With(20, "")).config->runs[0].route == Route::kAuto);
  CHECK(ParseSample(With(20, "    route: direct")).config->runs[0].route == Route::kDirect);
  CHECK(ParseSample(With(20, "    route: owner")).config->runs[0].route == Route::kOwner);
}

TEST_CASE("a codec's options and the key say the same thing") {
  const ParseResult by_option = ParseSample(With(20, "    codec: {kind: \"int8:ef\"}"));
  REQUIRE(by_option.ok());
  CHECK(by_option.config->runs[0].codec.error_feedback);
  const ParseResult by_key = ParseSample(With(20, "    codec: {kind: int8, error_feedback: true}"));
  REQUIRE(by_key.ok());
  CHECK(by_key.config->runs[0].codec.kind == by_option.config->runs[0].codec.kind);
  const ParseResult absent = ParseSample(With(20, ""));
  REQUIRE(absent.ok());
  CHECK(absent.config->runs[0].codec.kind == "fp32");
}

TEST_CASE("warnings do not refuse") {
  const ParseResult world = ParseSample(WithTop("trainers: {mode: 0666}"));
  REQUIRE(world.ok());
  REQUIRE(world.warnings.size() == 1);
  CHECK(world.WarningText().rfind("f.yaml:21:18: warning: trainers.mode: every user", 0) == 0);
  const ParseResult useless =
      ParseSample(With(20, "    codec: {kind: fp32, error_feedback: true}"));
  REQUIRE(useless.ok());
  REQUIRE(useless.warnings.size() == 1);
  CHECK(useless.warnings[0].key == "runs[0].codec.error_feedback");
  std::vector<std::string> lines(SampleLines().begin(), SampleLines().begin() + 9);
  const ParseResult no_runs = ParseSample(Join(lines));
  REQUIRE(no_runs.ok());
  REQUIRE(no_runs.warnings.size() == 1);
  CHECK(no_runs.warnings[0].key == "runs");
}

}  // namespace
}  // namespace causeway::config
