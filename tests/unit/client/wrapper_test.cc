// causeway.hpp and causeway_outer.hpp over the library: futures, typed failures, the training loop.
#include <cmath>

#include "client/include/causeway_outer.hpp"
#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

causeway::Outer::Options OptionsFor(const FakeGateway& gateway, size_t cluster = 0) {
  causeway::Outer::Options options;
  options.run = "demo";
  options.socket_path = gateway.socket(cluster);
  return options;
}

std::vector<OuterTensor> TensorsOf(std::vector<float>& a, std::vector<float>& b) {
  return {OuterTensor{"a", {a.size()}, a.data()}, OuterTensor{"b", {b.size()}, b.data()}};
}

void Add(std::vector<float>& values, float more) {
  for (float& value : values) value += more;
}

TEST_CASE(
    "Outer submits each fragment once in H steps, carries what is trained meanwhile, and "
    "finishes") {
  TemporaryDirectory directory;
  Options with;
  with.fragments = 2;
  with.local_steps = 4;
  with.delay_steps = 1;
  FakeGateway gateway(directory.path(), with);
  std::vector<float> a(300, 1.0f), b(300, 2.0f);
  Outer outer(OptionsFor(gateway), TensorsOf(a, b));
  REQUIRE(outer.layout().fragments == 2);
  for (int step = 1; step <= 10; ++step) {
    Add(a, 1);
    Add(b, 1);
    outer.Step();
  }
  REQUIRE(a == std::vector<float>(300, 11.0f));  // one cluster, average: its own work, all of it
  REQUIRE(outer.stats().rounds == 4);            // b after steps 2, 6, (10); a after 4, 8
  REQUIRE(gateway.Count(Type::kSubmit) == 5);
  const auto hash = outer.Finish();
  REQUIRE(hash[0] == 0x5a);
  REQUIRE(gateway.Values(0)[0] == 11);
  REQUIRE(gateway.Values(1)[0] == 12);
  REQUIRE(outer.stats().rounds == 7);
  REQUIRE(outer.stats().excluded == 0);
  REQUIRE(gateway.WaitCount(Type::kLeave, 1));
}

TEST_CASE("Outer takes the run's values where they differ, and counts what a rebase costs") {
  TemporaryDirectory directory;
  Options with;
  with.local_steps = 2;
  FakeGateway gateway(directory.path(), with);
  std::vector<float> a(8, 1.0f), b(8, 1.0f);
  Outer outer(OptionsFor(gateway), TensorsOf(a, b));
  Add(a, 1);
  outer.Step();
  gateway.Stop();
  gateway.SetValues(0, 5, std::vector<float>(512, 9.0f));
  gateway.Start(false);
  Add(a, 1);
  outer.Step();
  REQUIRE(a == std::vector<float>(8, 9.0f));
  REQUIRE(outer.stats().rebases == 1);
  REQUIRE(outer.stats().steps_lost == 2);
}

TEST_CASE("an operation is a future, and failures have types") {
  TemporaryDirectory directory;
  Options with;
  with.hold = true;
  FakeGateway gateway(directory.path(), with);
  causeway::Trainer::Options options;
  options.run = "demo";
  options.socket_path = gateway.socket();
  causeway::Trainer trainer(options);
  std::vector<float> a(8, 1.0f);
  cw_tensor tensor{};
  tensor.name = "a";
  tensor.dimensions = 1;
  tensor.alias_of = -1;
  tensor.shape[0] = 8;
  trainer.Join({tensor}, true);
  const std::vector<cw_slice> slices = {Slice(0, a.data())};
  trainer.Offer(slices);
  REQUIRE(trainer.Ready(20'000) == CW_MATCH);
  Operation operation(trainer, 0, 1, slices);
  REQUIRE_FALSE(operation.Ready());
  REQUIRE(operation.AwaitText().find("tokyo") != std::string::npos);
  REQUIRE_THROWS_AS(operation.Wait(0), Timeout);
  REQUIRE_THROWS_AS(Operation(trainer, 0, 1, slices), Busy);
  REQUIRE_THROWS_AS(operation.Apply(CW_CARRY, slices), Busy);
  gateway.Release();
  REQUIRE(operation.Wait(20'000).state == CW_STATE_COMMITTED);
  REQUIRE(operation.Ready());
  operation.Apply(CW_CARRY, slices);
  operation.Applied();
  gateway.SetOptions([](Options& o) { o.hold = false; });
  REQUIRE_THROWS_AS(trainer.Submit(0, 1, slices, CW_ORIGIN_BASE, 0), Rebase);
  gateway.Stop();
  try {
    trainer.Wait(Operation(trainer, 0, 1, slices).id(), 0);
    FAIL("a gateway that is away was not noticed");
  } catch (const GatewayLost& lost) {
    REQUIRE(lost.retryable());
  }
  causeway::Trainer::Options nowhere = options;
  nowhere.socket_path = directory.path() + "/nobody";
  REQUIRE_THROWS_AS(causeway::Trainer(nowhere), GatewayLost);
}

// One rank of two: pieces of a [6] and b [5], taking turns.
TEST_CASE(
    "a rank of several offers its slices once and submits no others, by a number that all know") {
  TemporaryDirectory directory;
  Options with;
  with.hold = true;
  FakeGateway gateway(directory.path(), with);
  Trainer trainer(gateway.socket());
  cw_close(trainer.handle);
  REQUIRE(OpenHandle(gateway.socket(), &trainer.handle, 0, "demo", 1, 2) == CW_OK);
  REQUIRE(gateway.Log().back().As<local::Hello>().world == 2);
  REQUIRE(trainer.Join() == CW_OK);
  std::vector<cw_slice> mine = {Slice(0, trainer.a.data(), 0, 2),
                                Slice(0, trainer.a.data() + 4, 4, 2),
                                Slice(1, trainer.b.data(), 0, CW_WHOLE)};
  REQUIRE(cw_offer(trainer.handle, mine.data(), 3) == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kOffer, 1));
  REQUIRE(gateway.Log().back().As<local::Offer>().slices == 3);
  REQUIRE(trainer.Ready() == CW_OK);
  cw_submission submission{};
  submission.struct_bytes = sizeof(submission);
  submission.base_round = CW_BASE_CURRENT;
  submission.weight = 7;
  uint64_t op = 0;
  REQUIRE(cw_submit(trainer.handle, &submission, mine.data(), 2, &op) == CW_ARGUMENT);
  REQUIRE(std::string(LastError().text).find("this rank offered") != std::string::npos);
  mine[0].count = 3;
  REQUIRE(cw_submit(trainer.handle, &submission, mine.data(), 3, &op) == CW_ARGUMENT);
  mine[0].count = 2;
  REQUIRE(cw_submit(trainer.handle, &submission, mine.data(), 3, &op) == CW_OK);
  REQUIRE(gateway.Log().back().As<local::Submit>().op == local::OpNumber(0, 0));
  gateway.Exclude(0, std::vector<float>(512, 3.0f));
  REQUIRE(trainer.Wait(op).state == CW_STATE_EXCLUDED);
  REQUIRE(cw_apply(trainer.handle, op, CW_REPLACE, 0, mine.data(), 3) == CW_OK);
  REQUIRE(trainer.a == std::vector<float>{3, 3, 2, 3, 3, 3});  // its own, and nothing else
}

TEST_CASE("numbers of operations differ between fragments and rounds") {
  REQUIRE(local::OpNumber(0, 0) != 0);
  REQUIRE(local::OpNumber(255, 0) < local::OpNumber(0, 1));
}

}  // namespace
}  // namespace causeway::test
