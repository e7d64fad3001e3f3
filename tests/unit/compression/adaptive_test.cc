// The choice of a codec: estimates by hand, a link that drops and returns, no flapping, limits.
#include "compression/adaptive.h"

#include <catch2/catch.hpp>

namespace causeway::compression {
namespace {

constexpr double kMbit = 1e6 / 8;

ExchangeConditions Conditions(double mbit) {
  ExchangeConditions conditions;
  conditions.elements = 25'000'000;
  conditions.bytes_per_second = mbit * kMbit;
  conditions.round_trip_seconds = 0.08;
  conditions.step_seconds = 0.4;
  conditions.delay_steps = 10;
  return conditions;
}

TEST_CASE("an estimate is bytes over rate plus a round trip") {
  ExchangeEstimate estimate = EstimateExchange(CodecSpec::Parse("fp32").value(), Conditions(1000));
  CHECK(estimate.wire_bytes == Approx(1e8 * (1 + kWireOverhead)));
  CHECK(estimate.seconds == Approx(0.824 + 0.08));
  CHECK(estimate.budget_seconds == Approx(4.0));
  CHECK(estimate.hidden);
  ExchangeConditions dark = Conditions(0);
  CHECK_FALSE(EstimateExchange(CodecSpec::Parse("sign").value(), dark).hidden);
}

TEST_CASE("the codec follows a link that drops to 50 Mbit/s and returns") {
  CodecChooser chooser(AutoLadder("fp32", "sign").value());
  CHECK(chooser.Choose(Conditions(1000)).spec.kind == CodecKind::kFp32);
  CodecChooser::Decision dropped = chooser.Choose(Conditions(50));
  CHECK(dropped.changed);
  CHECK(dropped.spec.kind == CodecKind::kInt4);
  CHECK(dropped.estimate.hidden);
  CHECK_FALSE(chooser.Choose(Conditions(1000)).changed);  // one good round proves nothing
  CodecChooser::Decision returned = chooser.Choose(Conditions(1000));
  CHECK(returned.changed);
  CHECK(returned.spec.kind == CodecKind::kFp32);
}

TEST_CASE("a rate that swings around a limit does not make the codec swing") {
  CodecChooser chooser(AutoLadder("fp32", "sign").value());
  int changes = 0;
  for (int round = 0; round < 100; ++round) {
    // bf16 needs 105 Mbit/s for its budget
    if (chooser.Choose(Conditions(round % 2 == 0 ? 100 : 112)).changed) ++changes;
  }
  CHECK(changes == 1);  // the first choice
}

TEST_CASE("the ladder has limits, and says so") {
  std::vector<CodecSpec> part = AutoLadder("int8", "2bit").value();
  REQUIRE(part.size() == 3);
  CHECK(part[0].kind == CodecKind::kInt8);
  CHECK(part[0].error_feedback);
  CodecChooser chooser(part);
  CodecChooser::Decision worst = chooser.Choose(Conditions(0.1));
  CHECK(worst.spec.kind == CodecKind::kTwoBit);
  CHECK_FALSE(worst.estimate.hidden);
  CHECK(worst.reason.find("exceed") != std::string::npos);
  CHECK_FALSE(AutoLadder("2bit", "int8").ok());
  CHECK_FALSE(AutoLadder("int5", "int8").ok());
  CHECK_FALSE(AutoLadder("int8", "nf4").ok());
}

}  // namespace
}  // namespace causeway::compression
