// The lines by which clusters compare what they were told to do.
#include "daemon/run/algorithm.h"

#include <catch2/catch.hpp>

namespace causeway::run {
namespace {

config::Run Demo() {
  config::Run run;
  run.name = "demo";
  run.clusters = {"paris", "tokyo"};
  run.seed = "paris";
  run.algorithm.rule = config::Rule::kNesterov;
  run.algorithm.learning_rate = 0.7;
  run.algorithm.momentum = 0.5;
  run.algorithm.local_steps = 20;
  run.codec.kind = "int4";
  run.codec.error_feedback = true;
  return run;
}

std::string Difference(const config::Run& here, const config::Run& there) {
  return FirstDifferentKey(AlgorithmLines(here), AlgorithmLines(there), "tokyo");
}

TEST_CASE("equal settings have equal digests and no difference") {
  CHECK(AlgorithmDigest(Demo()) == AlgorithmDigest(Demo()));
  CHECK(Difference(Demo(), Demo()).empty());
}

TEST_CASE("each setting that must agree changes the digest and is named") {
  const auto differs = [](auto change, const std::string& words) {
    config::Run other = Demo();
    change(other);
    CHECK(AlgorithmDigest(other) != AlgorithmDigest(Demo()));
    CHECK(Difference(Demo(), other) == words);
  };
  differs([](config::Run& r) { r.algorithm.local_steps = 10; },
          "algorithm.local_steps: 20 here, 10 at tokyo");
  differs([](config::Run& r) { r.algorithm.rule = config::Rule::kAverage; },
          "algorithm.rule: nesterov here, average at tokyo");
  differs([](config::Run& r) { r.algorithm.momentum = 0.25; },
          "algorithm.momentum: 0.5 here, 0.25 at tokyo");
  differs([](config::Run& r) { r.algorithm.fragments = 4; },
          "algorithm.fragments: 1 here, 4 at tokyo");
  differs([](config::Run& r) { r.algorithm.delay.reset(); },
          "algorithm.delay: 0 here, auto at tokyo");
  differs([](config::Run& r) { r.codec.kind = "int8"; },
          "codec: int4:b64:ef here, int8:b256:ef at tokyo");
  differs([](config::Run& r) { r.seed = "tokyo"; }, "seed: paris here, tokyo at tokyo");
}

TEST_CASE("a learning rate is compared to the last bit") {
  config::Run other = Demo();
  other.algorithm.learning_rate = 0.7 + 1e-16;
  CHECK((AlgorithmDigest(other) == AlgorithmDigest(Demo())) ==
        (other.algorithm.learning_rate == 0.7));
}

TEST_CASE("a peer's words cannot forge ours") {
  const std::string words = FirstDifferentKey({"a = 1"}, {"a = 2\nlevel=info\x1b[31m"}, "tokyo");
  CHECK(words.find('\n') == std::string::npos);
  CHECK(words.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace causeway::run
