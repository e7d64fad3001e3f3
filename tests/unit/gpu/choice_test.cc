// What `gpu:` comes to with and without a device, and which devices are refused.
#include "daemon/gpu/choice.h"

#include <catch2/catch.hpp>

#include "daemon/gpu/open.h"
#include "daemon/gpu/probe.h"
#include "tests/unit/gpu/stand_in.h"

namespace causeway::gpu {
namespace {

using Catch::Matchers::Contains;

absl::StatusOr<std::shared_ptr<GpuCodec>> None() { return absl::NotFoundError("CUDA finds none"); }
absl::StatusOr<std::shared_ptr<GpuCodec>> One() { return std::make_shared<testing::StandInGpu>(); }

std::vector<compression::CodecSpec> Codecs(const std::vector<std::string>& texts) {
  std::vector<compression::CodecSpec> specs;
  for (const std::string& text : texts) specs.push_back(*compression::CodecSpec::Parse(text));
  return specs;
}

TEST_CASE("auto takes a device where there is one, and says what the CPU keeps") {
  const auto with = Choose(Use::kAuto, Codecs({"int4", "topk", "2bit"}), One);
  REQUIRE(with.ok());
  CHECK(with->codec != nullptr);
  CHECK_THAT(with->text, Contains("stand-in") && Contains("topk") && Contains("2bit"));
  CHECK_THAT(with->text, !Contains("int4"));

  const auto without = Choose(Use::kAuto, Codecs({"int4"}), None);
  REQUIRE(without.ok());
  CHECK(without->codec == nullptr);
  CHECK_THAT(without->text, Contains("CUDA finds none") && Contains("CPU"));
}

TEST_CASE("required refuses to go on without a device, with the reason and the remedy") {
  const auto without = Choose(Use::kRequired, {}, None);
  CHECK(without.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(without.status().message()),
             Contains("gpu: required") && Contains("CUDA finds none") && Contains("gpu: auto"));
  CHECK(Choose(Use::kRequired, {}, One).ok());
}

TEST_CASE("off does not even look") {
  bool looked = false;
  const auto off = Choose(Use::kOff, {}, [&] {
    looked = true;
    return One();
  });
  REQUIRE(off.ok());
  CHECK(off->codec == nullptr);
  CHECK_FALSE(looked);
}

TEST_CASE("a device whose bytes differ is found out") {
  testing::StandInGpu good;
  CHECK(Probe(good).ok());
  CHECK(good.encoded == 4);
  CHECK(good.combined == 4);
  testing::StandInGpu wrong;
  wrong.wrong = true;
  CHECK(Probe(wrong).code() == absl::StatusCode::kDataLoss);
  testing::StandInGpu broken;
  broken.broken = true;
  CHECK(Probe(broken).code() == absl::StatusCode::kUnavailable);
}

// Whatever this machine and this build have: an answer, and no crash.
TEST_CASE("opening answers with a codec that works or with a reason") {
  auto budget = memory::Budget::Create(uint64_t{1} << 30);
  const auto opened = Open(*budget->Open("gpu"));
  if (opened.ok()) {
    CHECK(Probe(**opened).ok());
  } else {
    CHECK_THAT(std::string(opened.status().message()), !Catch::Matchers::Equals(""));
    WARN("no GPU here: " << opened.status().message());
  }
}

}  // namespace
}  // namespace causeway::gpu
