// Every kind of error with its exact place and a message that names the remedy.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sample.h"

namespace causeway::config {
namespace {

using testing::ParseSample;
using testing::With;
using testing::WithTop;

struct Case {
  std::string text;
  std::string expected;  // one whole line of ErrorText, or its beginning where it ends in "..."
};

void Check(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    const ParseResult result = ParseSample(each.text);
    INFO(each.text);
    INFO(result.ErrorText());
    CHECK_FALSE(result.ok());
    REQUIRE(result.errors.size() == 1);
    std::string expected = "f.yaml:" + each.expected;
    std::string actual = result.ErrorText();
    if (expected.ends_with("...")) {
      expected.resize(expected.size() - 3);
      actual.resize(std::min(actual.size(), expected.size()));
    } else {
      expected += "\n";
    }
    CHECK(actual == expected);
  }
}

TEST_CASE("unknown keys are refused with a suggestion") {
  Check({
      {WithTop("peer_timout: 10s"), "21:1: peer_timout: unknown key; did you mean 'peer_timeout'?"},
      {WithTop("socket: /x"), "21:1: socket: unknown key; there is trainers.socket, admin.socket"},
      {WithTop("qqqqqqqqq: 1"), "21:1: qqqqqqqqq: unknown key; known here: cluster, domain, ..."},
      {With(5, "  key: /k\n  kye: /k"), "6:3: tls.kye: unknown key; did you mean 'key'?"},
      {With(8, "  - {cluster: tokyo, adress: \"h:1\"}"),
       "8:22: peers[0].adress: unknown key; did you mean 'address'?"},
      {With(19, "      dealy: 1"),
       "19:7: runs[0].algorithm.dealy: unknown key; did you mean 'delay'?"},
      {With(20, "    codec: {kind: int4, ef: true}"),
       "20:25: runs[0].codec.ef: unknown key; known here: kind, error_feedback, residual, min, "
       "max"},
  });
}

TEST_CASE("duplicate keys are refused") {
  Check({
      {WithTop("cluster: oslo"),
       "21:1: cluster: duplicate key; first on line 1; remove one of them"},
      {With(17, "      local_steps: 20\n      rule: average"),
       "18:7: runs[0].algorithm.rule: duplicate key; first on line 14; remove one of them"},
      {With(8, "  - {cluster: tokyo, cluster: tokyo}"),
       "8:22: peers[0].cluster: duplicate key; first on line 8; remove one of them"},
  });
}

TEST_CASE("missing and empty keys") {
  Check({
      {With(1, ""), "2:1: cluster: missing; this key is required"},
      {With(5, ""), "4:3: tls.key: missing; this key is required"},
      {With(9, "  - address: \"a:1\""), "9:5: peers[1].cluster: missing; this key is required"},
      {With(2, "listen:"), "2:1: listen: has no value; write one or remove the key"},
      {With(2, "listen: ~"), "2:1: listen: has no value; write one or remove the key"},
      {With(1, "cluster: ''"), "1:10: cluster: is empty; write a value or remove the key"},
      {With(15, ""),
       "14:7: runs[0].algorithm.learning_rate: missing; rule nesterov needs it (0.7 is ..."},
      {With(16, ""),
       "14:7: runs[0].algorithm.momentum: missing; rule nesterov needs it (0.5 is ..."},
  });
}

TEST_CASE("wrong kinds of values") {
  Check({
      {WithTop("lanes: [4]"), "21:8: lanes: expected a single value, not a list"},
      {WithTop("lanes: four"), "21:8: lanes: 'four' is not a whole number"},
      {WithTop("lanes: \"4\""),
       "21:8: lanes: expected a whole number, not quoted text; remove the quotes"},
      {WithTop("lanes: 4.5"), "21:8: lanes: '4.5' is not a whole number"},
      {WithTop("log: text"), "21:6: log: expected a map of keys, not 'text'"},
      {With(9, "  - oslo"), "9:5: peers[1]: expected a map of keys, not 'oslo'"},
      {With(12, "    clusters: paris"), "12:15: runs[0].clusters: expected a list, as [a, b] ..."},
      {With(20, "    codec: {kind: int4, error_feedback: yes}"),
       "20:41: runs[0].codec.error_feedback: 'yes' is not true or false"},
      {With(20, "    codec: {kind: int4, residual: fp32}"),
       "20:25: runs[0].codec.residual: without error feedback there is none; ..."},
      {With(20, "    codec: {kind: \"int4:ef\", residual: fp16}"),
       "20:40: runs[0].codec.residual: 'fp16' is not one of bf16, fp32; did you mean 'bf16'?"},
      {With(15, "      learning_rate: .inf"),
       "15:22: runs[0].algorithm.learning_rate: '.inf' is not a number"},
      {WithTop("trainers: {mode: 660}"), "21:18: trainers.mode: '660' is not a file mode; ..."},
      {WithTop("trainers: {mode: 01777}"), "21:18: trainers.mode: '01777' sets bits beyond 0777"},
      {WithTop("state_directory: \"/a\\tb\""),
       "21:18: state_directory: contains a control character"},
      {"[a, b]\n", "1:1: expected a map of keys at the top, not a list"},
  });
}

TEST_CASE("ways to peers that lead nowhere") {
  Check({
      {With(9, "  - {cluster: oslo, relay: tokyo, address: \"oslo:7443\"}"),
       "9:28: peers[1].relay: goes without an address: either this side dials it, or the relay "
       "does"},
      {With(9, "  - {cluster: oslo, relay: oslo}"),
       "9:28: peers[1].relay: 'oslo' is the peer itself"},
      {With(9, "  - {cluster: oslo, relay: rome}"),
       "9:28: peers[1].relay: 'rome' is no peer of this cluster"},
      {With(8, "  - {cluster: tokyo, relay: oslo}"),
       "8:29: peers[0].relay: 'oslo' has no address here; both ends dial their relay"},
      {With(8, "  - {cluster: tokyo, rate_limit: 200}"),
       "8:34: peers[0].rate_limit: '200' is not a rate; write a number and a unit, as 200mbit, "
       "1gbit"},
      {With(8, "  - {cluster: tokyo, rate_limit: 1kbit}"),
       "8:34: peers[0].rate_limit: 1kbit is out of range; allowed: 1mbit to 1000gbit"},
      {WithTop("relay: [[tokyo, paris]]"),
       "21:9: relay[0]: 'tokyo' and 'paris' are not two peers of this cluster"},
      {WithTop("relay: [[tokyo, tokyo]]"),
       "21:9: relay[0]: 'tokyo' and 'tokyo' are not two peers of this cluster"},
      {WithTop("relay: [tokyo]"), "21:9: relay[0]: expected two clusters, such as [paris, tokyo]"},
      {WithTop("advertise: \"127.0.1.1:7443\""),
       "21:12: advertise: '127.0.1.1:7443' leads every host back to itself (Debian gives a host's "
       "own "
       "name 127.0.1.1); write the address that the other clusters reach"},
      {WithTop("advertise: \"[::1]:7443\""),
       "21:12: advertise: '[::1]:7443' leads every host back to itself ..."},
      {WithTop("advertise: \"0.0.0.0:7443\""),
       "21:12: advertise: '0.0.0.0:7443' leads every host back to itself ..."},
      {WithTop("advertise: \"localhost:7443\""),
       "21:12: advertise: 'localhost:7443' leads every host back to itself ..."},
      {WithTop("advertise: gateway"),
       "21:12: advertise: 'gateway' is not an address; write host:port or [IPv6 address]:port"},
  });
}

TEST_CASE("values out of range") {
  Check({
      {WithTop("lanes: 0"), "21:8: lanes: 0 is out of range; allowed: 1 to 32"},
      {WithTop("workers: -1"), "21:10: workers: -1 is out of range; allowed: 0 to 256"},
      {WithTop("memory: 1MiB"), "21:9: memory: 1 MiB is out of range; allowed: 64 MiB to 16 TiB"},
      {WithTop("memory: 4GB"),
       "21:9: memory: '4GB' leaves open whether 1000 or 1024 is meant; ..."},
      {WithTop("peer_timeout: 10"), "21:15: peer_timeout: '10' has no unit; did you mean '10s'?"},
      {WithTop("peer_timeout: 1ms"),
       "21:15: peer_timeout: 1ms is out of range; allowed: 200ms to 10m"},
      {WithTop("peer_timeout: soon"), "21:15: peer_timeout: 'soon' is not a duration; ..."},
      {With(15, "      learning_rate: 0"),
       "15:22: runs[0].algorithm.learning_rate: 0 is out of range; allowed: above 0 to 100"},
      {With(16, "      momentum: 1"),
       "16:17: runs[0].algorithm.momentum: 1 is out of range; allowed: 0 to below 1"},
      {With(17, "      local_steps: 99999999999999999999"),
       "17:20: runs[0].algorithm.local_steps: '99999999999999999999' is not a whole number"},
      {WithTop("log: {level: loud}"),
       "21:14: log.level: 'loud' is not one of debug, info, warning, error"},
      {WithTop("log: {level: inf}"),
       "21:14: log.level: 'inf' is not one of debug, info, warning, error; did you mean 'info'?"},
  });
}

TEST_CASE("names, addresses and paths") {
  Check({
      {With(1, "cluster: Paris"), "1:10: cluster: cluster name \"Paris\" holds \"P\"; ..."},
      {WithTop("domain: a..b"), "21:9: domain: domain \"a..b\": the label at character 3 is empty"},
      {With(2, "listen: \"7443\""), "2:9: listen: '7443' is not an address to listen on; ..."},
      {With(2, "listen: \"::1:7443\""), "2:9: listen: '::1:7443' is not an address; an IPv6 ..."},
      {With(2, "listen: \"[::]:0\""),
       "2:9: listen: '[::]:0' is not an address: the port after ..."},
      {With(2, "listen: \"gateway:7443\""), "2:9: listen: 'gateway:7443' is not an address to ..."},
      {With(8, "  - {cluster: tokyo, address: tokyo}"),
       "8:31: peers[0].address: 'tokyo' is not an address; write host:port or ..."},
      {With(8, "  - {cluster: tokyo, address: \"tokyo:70000\"}"),
       "8:31: peers[0].address: 'tokyo:70000' is not an address: the port after the last ..."},
      {With(8, "  - {cluster: tokyo, address: \"10.0.0.256:1\"}"),
       "8:31: peers[0].address: '10.0.0.256:1' is not an address; ..."},
      {With(4, "  certificate: gateway.pem"),
       "4:16: tls.certificate: 'gateway.pem' is not an absolute path; ..."},
      {WithTop("metrics: {listen: \"localhost:1\"}"),
       "21:19: metrics.listen: 'localhost:1' is not an address to listen on; ..."},
      {WithTop("admin: {socket: /run/causeway/trainer.sock}"),
       "21:17: admin.socket: is the trainers' socket, too; each needs a path of its own"},
      {WithTop("admin: {socket: /" + std::string(120, 'x') + "}"),
       "21:17: admin.socket: a socket's path has at most 100 bytes, this one 121"},
      {With(6, "  authority: /ca\n  deny: [abc]"),
       "7:10: tls.deny[0]: expected the SHA-256 of a public key: 64 hexadecimal digits, ..."},
  });
}

TEST_CASE("peers and runs that do not fit together") {
  Check({
      {With(9, "  - cluster: paris"), "9:14: peers[1].cluster: 'paris' is this cluster; ..."},
      {With(9, "  - cluster: tokyo"),
       "9:14: peers[1].cluster: 'tokyo' is already a peer, on line 8"},
      {With(12, "    clusters: [paris, tokoy]"),
       "12:23: runs[0].clusters[1]: 'tokoy' is neither this cluster nor one of the peers; did you "
       "mean 'tokyo'?"},
      {With(12, "    clusters: [paris, tokyo, paris]"),
       "12:30: runs[0].clusters[2]: 'paris' is named twice"},
      {With(12, "    clusters: [oslo, tokyo]"),
       "12:15: runs[0].clusters: this cluster, 'paris', is not among them"},
      {With(12, "    clusters: []"), "12:15: runs[0].clusters: names no cluster"},
      {With(11, "  - name: ../x"), "11:11: runs[0].name: '../x' is not a run's name: ..."},
      {With(11, "  - seed: oslo\n    name: demo"),
       "11:11: runs[0].seed: 'oslo' is not among the run's clusters (paris, tokyo)"},
      {With(11, "  - primary: toko\n    name: demo"),
       "11:14: runs[0].primary: 'toko' is not among the run's clusters (paris, tokyo); did you "
       "mean "
       "'tokyo'?"},
      {testing::Join(testing::SampleLines()) +
           "  - {name: demo, clusters: [paris], algorithm: {rule: average}}\n",
       "21:12: runs[1].name: 'demo' is already a run, on line 11"},
  });
}

TEST_CASE("algorithms and codecs") {
  Check({
      {With(14, "      rule: nestorov"),
       "14:13: runs[0].algorithm.rule: 'nestorov' is not one of average, nesterov, sparseloco, "
       "co2, "
       "eager, gradients; did "
       "you mean 'nesterov'?"},
      {With(19, "      delay: 20"),
       "19:14: runs[0].algorithm.delay: 20 is not below local_steps (20): ..."},
      {With(19, "      delay: aut"),
       "19:14: runs[0].algorithm.delay: 'aut' is neither a whole number nor auto; did you mean "
       "..."},
      {With(18, "      fragments: 21"),
       "18:18: runs[0].algorithm.fragments: 21 is above local_steps (20): ..."},
      {With(18, "      fragments: 257"),
       "18:18: runs[0].algorithm.fragments: 257 is out of range; allowed: 1 to 256"},
      {With(20, "    codec: {kind: int5}"),
       "20:19: runs[0].codec.kind: codec \"int5\" is unknown; known: ..."},
      {With(20, "    codec: {kind: int4:b63}"), "20:19: runs[0].codec.kind: ..."},
      {With(20, "    codec: {kind: atuo}"),
       "20:19: runs[0].codec.kind: codec \"atuo\" is unknown; known: ..."},
      {With(20, "    codec: {kind: auto, min: nf4}"),
       "20:30: runs[0].codec.min: 'nf4' is nothing that auto chooses; it chooses from fp32, bf16, "
       "..."},
      {With(20, "    codec: {kind: auto, max: int44}"),
       "20:30: runs[0].codec.max: 'int44' is nothing that auto chooses; it chooses from fp32, "
       "bf16, "
       "int8, int4, 2bit, sign, btopk; did you mean 'int4'?"},
      {With(20, "    codec: {kind: auto, min: int4, max: int8}"),
       "20:41: runs[0].codec.max: 'int8' is less lossy than min, 'int4'; exchange the two"},
      {With(20, "    codec: {kind: int4, max: int8}"),
       "20:25: runs[0].codec.max: only kind auto has it; remove it or set kind: auto"},
      {With(20, "    route: relay"),
       "20:12: runs[0].route: 'relay' is not one of auto, direct, owner..."},
      {With(20, "    codec: {kind: \"int4:ef\", error_feedback: false}"),
       "20:19: runs[0].codec.kind: says ef (error feedback), but error_feedback is false; ..."},
  });
}

std::string WithAlgorithm(const std::string& algorithm, const std::string& codec = "int4") {
  std::vector<std::string> lines = testing::SampleLines();
  lines.erase(lines.begin() + 13, lines.begin() + 19);
  lines.at(12) = "    algorithm: " + algorithm;
  lines.at(13) = "    codec: {kind: \"" + codec + "\", error_feedback: true}";
  return testing::Join(lines);
}

TEST_CASE("keys that the rule does not have") {
  Check({
      {WithAlgorithm("{rule: average, local_steps: 2, momentum: 0.5}"),
       "13:48: runs[0].algorithm.momentum: rule average does not have it (nesterov, co2, eager, "
       "gradients have); remove it"},
      {WithAlgorithm("{rule: average, local_steps: 2, learning_rate: 1.0}"),
       "13:48: runs[0].algorithm.learning_rate: rule average does not have it (nesterov, "
       "sparseloco, co2, eager have); remove it"},
      {WithAlgorithm("{rule: sparseloco, learning_rate: 1, momentum: 0.5}"),
       "13:53: runs[0].algorithm.momentum: rule sparseloco does not have it ..."},
      {WithAlgorithm("{rule: nesterov, learning_rate: 1, momentum: 0.5, penalty: gap}"),
       "13:66: runs[0].algorithm.penalty: rule nesterov does not have it (co2 have); remove it"},
      {WithAlgorithm("{rule: co2, learning_rate: 1, penalty: gab}"),
       "13:55: runs[0].algorithm.penalty: 'gab' is neither a number nor gap; did you mean 'gap'?"},
      {WithAlgorithm("{rule: co2, learning_rate: 1, penalty: 0}"),
       "13:55: runs[0].algorithm.penalty: 0 is out of range; allowed: above 0 to 1e+06"},
      {WithAlgorithm("{rule: co2, learning_rate: 1, penalty_window: 4}"),
       "13:46: runs[0].algorithm.penalty_window: goes with penalty: gap"},
      {WithAlgorithm("{rule: co2, learning_rate: 1, local_steps: 8, delay: 3}"),
       "13:62: runs[0].algorithm.delay: results of rule co2 are one round late; remove it or set 0 "
       "to wait for each round"},
      {WithAlgorithm("{rule: eager, learning_rate: 1, momentum: 0, local_steps: 8, delay: 0}"),
       "13:77: runs[0].algorithm.delay: results of rule eager are one round late; remove it"},
      {WithAlgorithm("{rule: average, local_steps: 8, mix: 0.5}"),
       "13:48: runs[0].algorithm.mix: goes with a delay: ..."},
      {WithAlgorithm("{rule: average, local_steps: 8, delay: 2, mix: 1.5}"),
       "13:63: runs[0].algorithm.mix: 1.5 is out of range; allowed: 0 to 1"},
      {WithAlgorithm("{rule: sparseloco, learning_rate: 1, schedule_rounds: 9}"),
       "13:53: runs[0].algorithm.schedule_rounds: goes with final_learning_rate, which is missing"},
      {WithAlgorithm("{rule: average, local_steps: {paris: 2, kyoto: 3}}"),
       "13:45: runs[0].algorithm.local_steps: 'kyoto' is not among the run's clusters (paris, "
       "tokyo)"},
      {WithAlgorithm("{rule: average, local_steps: {paris: 2}}"),
       "13:45: runs[0].algorithm.local_steps: says nothing of 'tokyo'; ..."},
      {WithAlgorithm("{rule: average, local_steps: {paris: 2, tokyo: x}}"),
       "13:45: runs[0].algorithm.local_steps: of tokyo: 'x' is not a whole number; allowed: 1 to "
       "1000000"},
      {WithAlgorithm("{rule: average, local_steps: {paris: 2, tokyo: 9}, delay: 2}"),
       "13:74: runs[0].algorithm.delay: 2 is not below local_steps (2): ..."},
      {WithAlgorithm("{rule: average, mean: senders}"),
       "13:32: runs[0].algorithm.mean: rule average does not have it (sparseloco have); remove it"},
      {WithAlgorithm("{rule: sparseloco, learning_rate: 1, mean: sender}"),
       "13:59: runs[0].algorithm.mean: 'sender' is not one of all, senders; did you mean "
       "'senders'?"},
      {WithAlgorithm("{rule: sparseloco, learning_rate: 1, mean: senders}") + "    route: owner\n",
       "15:12: runs[0].route: does not go with mean: senders; set direct or remove it"},
      {WithAlgorithm("{rule: gradients, momentum: 0.9}"),
       "14:12: runs[0].codec: momentum and clip of rule gradients are for what topk and btopk send "
       "late: ..."},
      {WithAlgorithm("{rule: gradients, clip: 1, fragments: 2}", "topk:k100"),
       "13:40: runs[0].algorithm.clip: is of the whole gradient's norm, which a fragment of it "
       "does not know; ..."},
      {WithAlgorithm("{rule: gradients, local_steps: 2}"),
       "13:47: runs[0].algorithm.local_steps: 2 does not go with rule gradients, which exchanges "
       "every step; set 1 or remove it"},
      {WithAlgorithm("{rule: gradients, delay: 1}"),
       "13:41: runs[0].algorithm.delay: 1 is not below local_steps (1): ..."},
      {WithAlgorithm("{rule: gradients, delay: auto}"),
       "13:41: runs[0].algorithm.delay: auto needs local_steps of at least 2: ..."},
  });
}

TEST_CASE("what is no YAML document") {
  Check({
      {"", " the file is empty"},
      {"# nothing\n", " the file is empty"},
      {"cluster: [paris\n", "2:1: YAML: ..."},
      {"a: b\n\tc: d\n", "2:1: YAML: ..."},
      {testing::Join(testing::SampleLines()) + "---\na: b\n",
       "22:1: a second YAML document; one file holds one configuration"},
      {"a: &x 1\nb: *x\n", "2:4: aliases (*name) are not supported; write the value out"},
      {"a: !!binary aGk=\n", "1:4: the tag 'tag:yaml.org,2002:binary' is not supported; remove it"},
      {"? [a, b]\n: c\n", "1:3: a key must be a single word"},
      {std::string("a: b\0c\n", 7), " a zero byte at offset 4: not a text file"},
      {"a: " + std::string(40, '[') + std::string(40, ']') + "\n",
       "1:19: nested deeper than 16 levels"},
  });
}

TEST_CASE("one go finds all errors, in the file's order") {
  std::vector<std::string> lines = testing::SampleLines();
  lines[0] = "clustre: paris";
  lines[1] = "listen: here";
  lines[4] = "  key: [x]";
  lines[13] = "      rule: x";
  lines[16] = "      local_steps: 0";
  lines[19] = "    codec: {kind: int9}";
  const ParseResult result = ParseSample(testing::Join(lines));
  std::vector<int> at;
  for (const Diagnostic& error : result.errors) at.push_back(error.line);
  INFO(result.ErrorText());
  CHECK(at == std::vector<int>{1, 1, 2, 5, 14, 17, 20});
}

}  // namespace
}  // namespace causeway::config
