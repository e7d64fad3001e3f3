// The C ABI's promises in the order of a trainer's life: states, merges, refusals, errors.
#include <poll.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

TEST_CASE("a first trainer's values become the run's: MATCH, and rounds begin at 0") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  Trainer trainer(gateway.socket());
  trainer.Start();
  REQUIRE(trainer.start == CW_MATCH);
  REQUIRE(std::string(trainer.layout.cluster) == "paris");
  REQUIRE(trainer.layout.fragments == 1);
  REQUIRE(trainer.layout.local_steps == 4);
  cw_fragment fragment{};
  REQUIRE(cw_fragment_of(trainer.handle, 0, &fragment) == CW_OK);
  REQUIRE(fragment.elements == 512);
  REQUIRE(fragment.base_round == 0);
  REQUIRE(fragment.newest_round == 0);
  cw_placement place{};
  REQUIRE(cw_placement_of(trainer.handle, 1, &place) == CW_OK);
  REQUIRE(place.first_element == 256);
  REQUIRE(place.elements == 5);
}

TEST_CASE("a trainer whose values differ is told REPLACE and nothing is written before it reads") {
  TemporaryDirectory directory;
  Options options;
  options.clusters = {"paris", "tokyo"};
  FakeGateway gateway(directory.path(), options);
  Trainer paris(gateway.socket(0)), tokyo(gateway.socket(1));
  tokyo.Add(100);
  const std::vector<float> before = tokyo.a;
  REQUIRE(paris.Join() == CW_OK);
  REQUIRE(tokyo.Join() == CW_OK);
  REQUIRE(paris.Offer() == CW_OK);
  REQUIRE(paris.Ready(0) == CW_TIMEOUT);  // waits for tokyo
  REQUIRE(tokyo.Offer() == CW_OK);
  REQUIRE(paris.Ready() == CW_OK);
  REQUIRE(tokyo.Ready() == CW_OK);
  REQUIRE(paris.start == CW_MATCH);
  REQUIRE(tokyo.start == CW_REPLACE_ALL);
  REQUIRE(tokyo.a == before);

  uint64_t op = 0;
  REQUIRE(tokyo.Submit(&op) == CW_REBASE);  // not before it stands on the run's values
  REQUIRE(LastError().round == 0);
  const auto slices = tokyo.Slices();
  REQUIRE(cw_read(tokyo.handle, 0, 0, slices.data(), 2) == CW_OK);
  REQUIRE(tokyo.a == paris.a);
  REQUIRE(tokyo.b == paris.b);
  REQUIRE(cw_applied(tokyo.handle, 0, 0) == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kApplied, 1, 1));

  paris.Add(1);
  tokyo.Add(3);
  uint64_t paris_op = 0;
  REQUIRE(paris.Submit(&paris_op, 3) == CW_OK);
  REQUIRE(tokyo.Submit(&op, 1) == CW_OK);
  paris.ApplyAndTell(paris_op);
  tokyo.ApplyAndTell(op);
  REQUIRE(paris.a == std::vector<float>{1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f});
  REQUIRE(paris.a == tokyo.a);
  REQUIRE(paris.b == tokyo.b);
}

TEST_CASE("submit copies: the tensor may be overwritten at once, and padding stays zero") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op, 42) == CW_OK);
  trainer.Add(1000);
  const auto bytes = gateway.Snapshot(0);
  std::vector<float> snapshot(bytes.size() / 4);
  std::memcpy(snapshot.data(), bytes.data(), bytes.size());
  REQUIRE(snapshot[5] == 5);
  REQUIRE(snapshot[256] == 10);
  for (size_t i = 6; i < 256; ++i) REQUIRE(snapshot[i] == 0);
  const auto submit = gateway.Log().back().As<local::Submit>();
  REQUIRE(submit.weight == 42);
  REQUIRE(submit.base_round == 0);
}

TEST_CASE("pending, then committed, then applied") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  trainer.Add(2);
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  cw_result result = NewResult();
  REQUIRE(cw_test(trainer.handle, op, &result) == CW_OK);
  REQUIRE(result.state == CW_STATE_PENDING);
  REQUIRE(result.round == 1);
  REQUIRE(cw_wait(trainer.handle, op, 0, &result) == CW_TIMEOUT);
  REQUIRE(LastError().retryable == 1);
  uint64_t second = 0;
  REQUIRE(trainer.Submit(&second) == CW_BUSY);
  REQUIRE(trainer.Apply(op) == CW_BUSY);
  REQUIRE(cw_applied(trainer.handle, 0, 1) == CW_ARGUMENT);
  REQUIRE(cw_finish(trainer.handle, 0, nullptr) == CW_BUSY);

  gateway.Release();
  result = trainer.Wait(op);
  REQUIRE(result.state == CW_STATE_COMMITTED);
  REQUIRE(result.round == 1);
  REQUIRE(result.participants == 1);
  REQUIRE(result.raw_bytes == 2048);
  REQUIRE(trainer.Submit(&second) == CW_BUSY);  // unread
  const std::vector<float> expected = trainer.a;
  REQUIRE(trainer.Apply(op) == CW_OK);
  REQUIRE(trainer.a == expected);  // one cluster, average: what it sent
  REQUIRE(cw_applied(trainer.handle, 0, 1) == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kApplied, 1));
  REQUIRE(cw_test(trainer.handle, op, &result) == CW_ARGUMENT);  // gone
  REQUIRE(trainer.Submit(&second, 1, 0) == CW_REBASE);           // an old base
  REQUIRE(trainer.Submit(&second, 1, 1) == CW_OK);
}

TEST_CASE("an excluded contribution keeps its local work on top of the new value") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  trainer.Add(2);  // local work of 2 on every element
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  trainer.Add(1);  // and 1 more after the snapshot
  gateway.Exclude(0, std::vector<float>(512, 50.0f));
  REQUIRE(trainer.Wait(op).state == CW_STATE_EXCLUDED);
  REQUIRE(trainer.Apply(op) == CW_OK);
  REQUIRE(trainer.a == std::vector<float>(6, 53.0f));
  REQUIRE(trainer.b == std::vector<float>(5, 53.0f));
}

TEST_CASE("mix keeps a share of the local value, replace none, and `out` leaves `data` alone") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  gateway.Release();
  REQUIRE(trainer.Wait(op).state == CW_STATE_COMMITTED);
  trainer.Add(8);
  const std::vector<float> now = trainer.a;
  std::vector<float> out_a(6), out_b(5);
  std::vector<uint16_t> cast_a(6);
  auto slices = trainer.Slices();
  slices[0].out = out_a.data();
  slices[0].cast = cast_a.data();
  slices[0].cast_dtype = CW_BF16;
  slices[1].out = out_b.data();
  REQUIRE(cw_apply(trainer.handle, op, CW_MIX, 0.25f, slices.data(), 2) == CW_OK);
  REQUIRE(trainer.a == now);
  REQUIRE(out_a == std::vector<float>{2, 3, 4, 5, 6, 7});
  REQUIRE(cast_a[0] == 0x4000);  // 2.0
  REQUIRE(cw_apply(trainer.handle, op, CW_REPLACE, 0, slices.data(), 2) == CW_OK);
  REQUIRE(out_a == std::vector<float>{0, 1, 2, 3, 4, 5});
  REQUIRE(cw_apply(trainer.handle, op, CW_CARRY, 0, slices.data(), 2) == CW_OK);
  REQUIRE(out_a == now);
}

TEST_CASE("stalled is told with who is missing, resumes by itself, and can be abandoned") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  gateway.SendState(1, local::State::kStalled, "tokyo,lima");
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.handle, op, 50, &result) == CW_STALLED);
  REQUIRE(std::string(result.awaited) == "tokyo,lima");
  REQUIRE(std::string(LastError().text).find("tokyo,lima") != std::string::npos);
  REQUIRE(LastError().retryable == 1);
  gateway.SendState(1, local::State::kPending, "tokyo");
  REQUIRE(cw_wait(trainer.handle, op, 50, &result) == CW_TIMEOUT);
  REQUIRE(result.in_doubt == 1);
  char text[128];
  REQUIRE(cw_await_text(trainer.handle, op, text, sizeof(text)) == CW_OK);
  REQUIRE(std::string(text) == "tokyo: no contribution yet (for 1.5 s)");
  REQUIRE(cw_await_text(trainer.handle, op, text, 6) == CW_OK);
  REQUIRE(std::string(text) == "tokyo");
  REQUIRE(cw_abandon(trainer.handle, op) == CW_OK);
  REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_OK);
  REQUIRE(result.state == CW_STATE_ABANDONED);
  uint64_t next = 0;
  REQUIRE(trainer.Submit(&next) == CW_OK);  // the fragment is free again
}

TEST_CASE("gradient averaging offers nothing and replaces") {
  TemporaryDirectory directory;
  Options options;
  options.clusters = {"paris", "tokyo"};
  FakeGateway gateway(directory.path(), options);
  Trainer paris(gateway.socket(0)), tokyo(gateway.socket(1));
  REQUIRE(paris.Join(false) == CW_OK);
  REQUIRE(tokyo.Join(false) == CW_OK);
  const auto slices = paris.Slices();
  REQUIRE(cw_offer(paris.handle, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(paris.Offer() == CW_OK);
  REQUIRE(tokyo.Offer() == CW_OK);
  REQUIRE(paris.Ready() == CW_OK);
  REQUIRE(tokyo.Ready() == CW_OK);
  tokyo.Add(4);
  for (int step = 1; step <= 3; ++step) {
    uint64_t p = 0, t = 0;
    REQUIRE(paris.Submit(&p, 1) == CW_OK);
    REQUIRE(tokyo.Submit(&t, 3) == CW_OK);
    paris.ApplyAndTell(p, CW_REPLACE);
    tokyo.ApplyAndTell(t, CW_REPLACE);
    REQUIRE(paris.a == tokyo.a);
    if (step == 1) {
      REQUIRE(paris.a == std::vector<float>{3, 4, 5, 6, 7, 8});
    }
  }
  tokyo.a[2] = NAN;
  uint64_t p = 0, t = 0;
  REQUIRE(paris.Submit(&p) == CW_OK);
  REQUIRE(tokyo.Submit(&t) == CW_OK);
  REQUIRE(paris.Wait(p).nonfinite == 1);
  REQUIRE(tokyo.Wait(t).nonfinite == 1);
}

TEST_CASE("the poll descriptor is readable when and only when there is news") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  pollfd watched{cw_poll_fd(trainer.handle), POLLIN, 0};
  REQUIRE(poll(&watched, 1, 0) == 0);
  gateway.Release();
  REQUIRE(poll(&watched, 1, 20'000) == 1);
  // Another call reads the message; the descriptor must go on saying that an operation has ended.
  char text[64];
  REQUIRE(cw_await_text(trainer.handle, 0, text, sizeof(text)) == CW_OK);
  REQUIRE(poll(&watched, 1, 20'000) == 1);
  cw_result result = NewResult();
  REQUIRE(cw_test(trainer.handle, op, &result) == CW_OK);
  REQUIRE(result.state == CW_STATE_COMMITTED);
  REQUIRE(poll(&watched, 1, 0) == 0);
}

TEST_CASE("threads wait on one handle at once, and each hears of its own operation") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  options.fragments = 2;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  REQUIRE(trainer.layout.fragments == 2);
  uint64_t ops[2] = {};
  const auto slices = trainer.Slices();
  for (uint32_t f = 0; f < 2; ++f) {
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.fragment = f;
    submission.base_round = CW_BASE_CURRENT;
    submission.weight = 1;
    REQUIRE(cw_submit(trainer.handle, &submission, &slices[f], 1, &ops[f]) == CW_OK);
  }
  int codes[4] = {-1, -1, -1, -1};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&, i] { codes[i] = cw_wait(trainer.handle, ops[i % 2], 20'000, nullptr); });
  }
  gateway.Release();
  for (std::thread& thread : threads) thread.join();
  for (int code : codes) REQUIRE(code == CW_OK);
}

TEST_CASE("finish gives the run's hash, leave ends the handle") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint8_t hash[32] = {};
  REQUIRE(cw_finish(trainer.handle, 20'000, hash) == CW_OK);
  REQUIRE(hash[0] == 0x5a);
  REQUIRE(cw_finish(trainer.handle, 20'000, hash) == CW_OK);
  REQUIRE(cw_leave(trainer.handle) == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kLeave, 1));
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_ARGUMENT);
}

}  // namespace
}  // namespace causeway::test
