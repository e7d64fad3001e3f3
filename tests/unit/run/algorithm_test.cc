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
  differs([](config::Run& r) { r.algorithm.mix = 0.5; }, "algorithm.mix: none here, 0.5 at tokyo");
  differs([](config::Run& r) { r.algorithm.gap_penalty = true; },
          "algorithm.penalty: 1 here, gap at tokyo");
  differs([](config::Run& r) { r.algorithm.schedule_rounds = 7; },
          "algorithm.schedule_rounds: 0 here, 7 at tokyo");
  differs([](config::Run& r) { r.algorithm.clip = 0.25; }, "algorithm.clip: 0 here, 0.25 at tokyo");
  differs([](config::Run& r) { r.algorithm.mean_of_senders = true; },
          "algorithm.mean: all here, senders at tokyo");
  differs([](config::Run& r) { r.algorithm.normalise_steps = true; },
          "algorithm.normalise: none here, steps at tokyo");
  differs([](config::Run& r) { r.algorithm.round_late = true; },
          "algorithm.delay: 0 here, round at tokyo");
  differs([](config::Run& r) { r.codec.kind = "int8"; },
          "codec: int4:b64:ef here, int8:b256:ef at tokyo");
  differs([](config::Run& r) { r.seed = "tokyo"; }, "seed: paris here, tokyo at tokyo");
}

TEST_CASE("unequal steps are equal settings on every cluster, and are normalised by their mean") {
  config::Run paris = Demo();
  paris.algorithm.steps_of = {10, 30};
  paris.algorithm.local_steps = 10;
  config::Run tokyo = paris;
  tokyo.algorithm.local_steps = 30;
  CHECK(Difference(paris, tokyo).empty());
  CHECK(CountedWeight(paris.algorithm, 7) == 7);
  paris.algorithm.normalise_steps = tokyo.algorithm.normalise_steps = true;
  // As many tokens a step on both: after 10 and 30 steps both count the same.
  CHECK(CountedWeight(paris.algorithm, 10 * 64) == CountedWeight(tokyo.algorithm, 30 * 64));
  CHECK(CountedWeight(paris.algorithm, 0) == 0);
  CHECK(CountedWeight(paris.algorithm, UINT64_MAX) > UINT64_MAX / 128);
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
