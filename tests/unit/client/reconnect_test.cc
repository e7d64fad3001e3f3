// A gateway that goes away and comes back: nothing is lost, nothing counts twice, nothing is
// guessed.
#include <poll.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

struct Scene {
  explicit Scene(bool hold = true)
      : gateway(directory.path(), Holding(hold)), trainer(gateway.socket()) {
    trainer.Start();
  }
  static Options Holding(bool hold) {
    Options options;
    options.hold = hold;
    return options;
  }
  // The first wait after a loss tells it; the next ones reconnect.
  void RequireLost(uint64_t op) {
    cw_result result = NewResult();
    REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_GATEWAY_LOST);
    REQUIRE(LastError().retryable == 1);
    REQUIRE(result.state == CW_STATE_PENDING);
  }
  TemporaryDirectory directory;
  FakeGateway gateway;
  Trainer trainer;
};

TEST_CASE("a lost connection is told once, resumed by token, and the operation is asked about") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(1);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.Disconnect();
  scene.RequireLost(op);
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.gateway.WaitCount(Type::kQuery, 1));
  REQUIRE(scene.gateway.Count(Type::kJoin) == 1);  // the session went on
  scene.gateway.Release();
  scene.trainer.ApplyAndTell(op);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);  // never sent twice
  REQUIRE(scene.gateway.Round(0) == 1);
}

TEST_CASE("a result that arrived while the connection was gone is learnt by asking") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(1);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.Disconnect();
  scene.gateway.Release();  // the news goes nowhere
  scene.RequireLost(op);
  scene.trainer.ApplyAndTell(op);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);
}

TEST_CASE("a gateway that lost its memory, on an unchanged base, gets the same bytes again") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(3);
  REQUIRE(scene.trainer.Submit(&op, 9) == CW_OK);
  const auto bytes = scene.gateway.Snapshot(0);
  scene.trainer.Add(1);  // later work must not leak into the resubmission
  scene.gateway.Stop();
  scene.RequireLost(op);
  REQUIRE(cw_wait(scene.trainer.handle, op, 300, nullptr) == CW_GATEWAY_LOST);
  REQUIRE(std::string(LastError().text).find("no such file") != std::string::npos);
  scene.gateway.Start(false);
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.gateway.WaitCount(Type::kSubmit, 2));
  REQUIRE(scene.gateway.Count(Type::kJoin) == 2);
  REQUIRE(scene.gateway.Snapshot(0) == bytes);
  const auto again = scene.gateway.Log().back().As<local::Submit>();
  REQUIRE(again.weight == 9);
  REQUIRE(again.op == 2);  // a new number
  scene.gateway.Release();
  const cw_result result = scene.trainer.Wait(op);
  REQUIRE(result.state == CW_STATE_COMMITTED);
  REQUIRE(scene.trainer.Apply(op) == CW_OK);
  REQUIRE(scene.trainer.a == std::vector<float>{4, 5, 6, 7, 8, 9});  // sent 3, carried 1
}

TEST_CASE("what only a ready session may say is not said before a new one is ready") {
  Scene scene(false);
  scene.gateway.Stop();
  std::promise<void> asked;
  auto once = std::make_shared<std::once_flag>();
  scene.gateway.SetHook([&asked, once](size_t, const fake::Received& message) {
    if (message.type != Type::kJoin) return false;
    std::call_once(*once, [&asked] { asked.set_value(); });
    return true;  // and it is not answered
  });
  scene.gateway.Start(false);
  const std::future<void> join = asked.get_future();
  for (int i = 0; i < 200 && join.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
       ++i) {
    REQUIRE(cw_reconnect(scene.trainer.handle, 100) != CW_OK);
  }
  REQUIRE(join.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  uint64_t op = 0;
  REQUIRE(scene.trainer.Submit(&op) == CW_NOT_READY);
  REQUIRE(cw_finish(scene.trainer.handle, 0, nullptr) == CW_NOT_READY);
  scene.gateway.SetHook([](size_t, const fake::Received&) { return false; });
  scene.gateway.Disconnect();
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_GATEWAY_LOST);  // told once
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);
  REQUIRE(scene.gateway.Count(Type::kFinish) == 0);
}

TEST_CASE(
    "a gateway that remembers the commit delivers it; the work after the snapshot is carried") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(3);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.Disconnect();
  scene.gateway.Release();
  scene.gateway.Stop();
  scene.gateway.Start();
  scene.trainer.Add(1);
  scene.RequireLost(op);
  const cw_result result = scene.trainer.Wait(op);
  REQUIRE(result.state == CW_STATE_COMMITTED);
  REQUIRE(result.round == 1);
  REQUIRE(scene.trainer.Apply(op) == CW_OK);
  REQUIRE(scene.trainer.a == std::vector<float>{4, 5, 6, 7, 8, 9});
  REQUIRE(cw_applied(scene.trainer.handle, 0, 1) == CW_OK);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);
  uint64_t next = 0;
  REQUIRE(scene.trainer.Submit(&next) == CW_OK);
}

TEST_CASE(
    "a run that moved on meanwhile makes an unknown operation a REBASE, never a second count") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(3);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.Stop();
  scene.gateway.SetValues(0, 5, std::vector<float>(512, 8.0f));
  scene.RequireLost(op);
  scene.gateway.Start(false);
  cw_result result = NewResult();
  REQUIRE(cw_wait(scene.trainer.handle, op, 20'000, &result) == CW_REBASE);
  REQUIRE(LastError().round == 5);
  REQUIRE(LastError().retryable == 1);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);
  uint64_t next = 0;
  REQUIRE(scene.trainer.Submit(&next) == CW_REBASE);
  const auto slices = scene.trainer.Slices();
  REQUIRE(cw_read(scene.trainer.handle, 0, 5, slices.data(), 2) == CW_OK);
  REQUIRE(scene.trainer.a == std::vector<float>(6, 8.0f));
  REQUIRE(cw_applied(scene.trainer.handle, 0, 5) == CW_OK);
  REQUIRE(scene.trainer.Submit(&next) == CW_OK);
}

TEST_CASE("the same round number with other bytes is another base") {
  Scene scene;
  scene.gateway.Stop();
  scene.gateway.SetValues(0, 0, std::vector<float>(512, 8.0f));
  scene.gateway.Start(false);
  uint64_t op = 0;
  REQUIRE(scene.trainer.Submit(&op) == CW_GATEWAY_LOST);
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.trainer.Submit(&op) == CW_REBASE);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 0);
}

TEST_CASE("a result in hand survives the gateway's restart") {
  Scene scene(false);
  uint64_t op = 0;
  scene.trainer.Add(3);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  REQUIRE(scene.trainer.Wait(op).state == CW_STATE_COMMITTED);
  scene.gateway.Stop();
  REQUIRE(scene.trainer.Apply(op) == CW_OK);  // from the memory that is still mapped
  REQUIRE(cw_applied(scene.trainer.handle, 0, 1) == CW_OK);
  scene.gateway.Start(false);
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.gateway.WaitCount(Type::kApplied, 1));
  const auto applied = scene.gateway.Log().back().As<local::Applied>();
  REQUIRE(applied.round == 1);
  scene.trainer.Add(1);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.trainer.ApplyAndTell(op);
  REQUIRE(scene.gateway.Round(0) == 2);
}

TEST_CASE("a connection lost while the run forms: the wait goes on through it") {
  TemporaryDirectory directory;
  Options options;
  options.clusters = {"paris", "tokyo"};
  FakeGateway gateway(directory.path(), options);
  Trainer paris(gateway.socket(0)), tokyo(gateway.socket(1));
  REQUIRE(paris.Join() == CW_OK);
  REQUIRE(paris.Offer() == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kOffer, 1));
  gateway.Disconnect(0);
  REQUIRE(paris.Ready() == CW_GATEWAY_LOST);
  REQUIRE(paris.Ready(0) != CW_OK);
  REQUIRE(cw_reconnect(paris.handle, 20'000) == CW_OK);
  REQUIRE(tokyo.Join() == CW_OK);
  REQUIRE(tokyo.Offer() == CW_OK);
  REQUIRE(paris.Ready() == CW_OK);
  REQUIRE(tokyo.Ready() == CW_OK);
  REQUIRE(paris.start == CW_MATCH);
}

TEST_CASE("a gateway that comes back with another layout is refused") {
  Scene scene;
  scene.gateway.Stop();
  scene.gateway.Start(false);
  scene.gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kJoin) return false;
    fake::Memory layout, snapshot, values;
    layout.Make(4096, true);
    snapshot.Make(8192, true);
    values.Make(16384, true);
    local::FragmentRecord fragments[2] = {};
    fragments[0].elements = fragments[1].elements = 256;
    fragments[1].snapshot_offset = 1024;
    fragments[0].values_offset[1] = 1024;
    fragments[1].values_offset[0] = 2048;
    fragments[1].values_offset[1] = 3072;
    local::PlacementRecord places[2] = {};
    places[0].elements = 6;
    places[1].elements = 5;
    places[1].fragment = 1;
    std::memcpy(layout.data, fragments, sizeof(fragments));
    std::memcpy(layout.data + sizeof(fragments), places, sizeof(places));
    local::Joined joined{};
    joined.header.magic = local::kMagic;
    joined.header.version = 1;
    joined.header.type = static_cast<uint16_t>(Type::kJoined);
    joined.header.size = sizeof(joined);
    joined.header.sequence = 2;
    joined.header.answers = message.As<local::Header>().sequence;
    joined.fragments = 2;
    joined.tensors = 2;
    joined.snapshot_bytes = 8192;
    joined.values_bytes = 16384;
    joined.layout_bytes = sizeof(fragments) + sizeof(places);
    joined.local_steps = 4;
    joined.outer = 1;
    scene.gateway.SendBytes(&joined, sizeof(joined),
                            {layout.descriptor, snapshot.descriptor, values.descriptor});
    return true;
  });
  int code = CW_OK;
  for (int i = 0; i < 3 && code != CW_SCHEMA; ++i)
    code = cw_reconnect(scene.trainer.handle, 20'000);
  REQUIRE(code == CW_SCHEMA);
  REQUIRE(std::string(LastError().text).find("configuration") != std::string::npos);
}

TEST_CASE("the poll descriptor announces losses and attempts, and stays the same") {
  Scene scene;
  uint64_t op = 0;
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  const int descriptor = cw_poll_fd(scene.trainer.handle);
  pollfd watched{descriptor, POLLIN, 0};
  scene.gateway.Disconnect();
  cw_result result = NewResult();
  // An event loop that only polls and tests gets there.
  scene.gateway.Release();
  int rounds = 0;
  while (result.state != CW_STATE_COMMITTED) {
    REQUIRE(poll(&watched, 1, 20'000) == 1);
    REQUIRE(cw_test(scene.trainer.handle, op, &result) == CW_OK);
    REQUIRE(++rounds < 1000);
  }
  REQUIRE(cw_poll_fd(scene.trainer.handle) == descriptor);
}

TEST_CASE("opening waits for a gateway that starts, within its time-out") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  gateway.Stop();
  cw_handle* handle = nullptr;
  REQUIRE(OpenHandle(gateway.socket(), &handle, 0) == CW_GATEWAY_LOST);
  std::thread opener([&] { REQUIRE(OpenHandle(gateway.socket(), &handle, 20'000) == CW_OK); });
  gateway.Start();
  opener.join();
  cw_close(handle);
  int refusals = 0;
  gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kHello || refusals++ > 1) return false;
    gateway.SendError(message.As<local::Header>().sequence, local::Code::kNotReady, true, false, "",
                      "starting");
    return true;
  });
  REQUIRE(OpenHandle(gateway.socket(), &handle, 20'000) == CW_OK);
  cw_close(handle);
  gateway.SetHook([&](size_t, const fake::Received& message) {
    gateway.SendError(message.As<local::Header>().sequence, local::Code::kIdentityTaken, false,
                      true, "", "rank 0 of run demo is process 4711");
    return true;
  });
  REQUIRE(OpenHandle(gateway.socket(), &handle, 20'000) == CW_IDENTITY_TAKEN);
  REQUIRE(std::string(LastError().text).find("4711") != std::string::npos);
}

TEST_CASE("a gateway that shuts down ends connections, not trainers") {
  Scene scene;
  uint64_t op = 0;
  scene.trainer.Add(1);
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.SendError(0, local::Code::kDraining, true, true, "", "shutting down");
  scene.RequireLost(op);
  int refusals = 0;
  scene.gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kHello || refusals++ > 1) return false;
    scene.gateway.SendError(message.As<local::Header>().sequence, local::Code::kDraining, true,
                            true, "", "the daemon is shutting down");
    return true;
  });
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(refusals > 2);
  scene.gateway.Release();
  scene.trainer.ApplyAndTell(op);
  REQUIRE(scene.gateway.Count(Type::kSubmit) == 1);
}

TEST_CASE("after resuming, only fragments without an operation are reported applied") {
  Scene scene;
  uint64_t op = 0;
  REQUIRE(scene.trainer.Submit(&op) == CW_OK);
  scene.gateway.Disconnect();
  scene.RequireLost(op);
  REQUIRE(cw_reconnect(scene.trainer.handle, 20'000) == CW_OK);
  REQUIRE(scene.gateway.WaitCount(Type::kQuery, 1));
  scene.gateway.Release();
  REQUIRE(scene.trainer.Wait(op).state == CW_STATE_COMMITTED);
  REQUIRE(scene.gateway.Count(Type::kApplied) == 0);
}

}  // namespace
}  // namespace causeway::test
