// The C ABI's refusals: wrong calls, and the errors of a gateway as the trainer sees them.
#include <cmath>

#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

TEST_CASE("apply writes all or nothing") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  REQUIRE(trainer.Wait(op).state == CW_STATE_COMMITTED);
  trainer.Add(5);
  const std::vector<float> a = trainer.a, b = trainer.b;
  auto slices = trainer.Slices();
  slices[1].data = nullptr;
  REQUIRE(cw_apply(trainer.handle, op, CW_REPLACE, 0, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(std::string(LastError().tensor) == "b");
  REQUIRE(cw_apply(trainer.handle, op, CW_REPLACE, 0, slices.data(), 1) ==
          CW_ARGUMENT);  // b is missing
  slices = trainer.Slices();
  slices[1].count = 6;
  REQUIRE(cw_apply(trainer.handle, op, CW_REPLACE, 0, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(cw_apply(trainer.handle, op, 7, 0, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(cw_apply(trainer.handle, op, CW_MIX, NAN, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(trainer.a == a);
  REQUIRE(trainer.b == b);
}

TEST_CASE("a failed operation tells who and which tensor, and frees its fragment") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  gateway.SendError(0, local::Code::kNonfinite, false, false, "b", "b[3] is NaN");
  gateway.SendFailed(1, local::Code::kNonfinite);
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_NONFINITE);
  const cw_error error = LastError();
  REQUIRE(std::string(error.tensor) == "b");
  REQUIRE(std::string(error.cluster) == "tokyo");
  REQUIRE(std::string(error.text) == "b[3] is NaN");
  REQUIRE(error.retryable == 0);
  REQUIRE(error.round == 7);
  REQUIRE(trainer.Submit(&op) == CW_OK);
}

TEST_CASE("codes that this version does not know, or that no gateway may say, become INTERNAL") {
  for (int code : {0, 6, 64, 65, 999}) {
    INFO("code " << code);
    TemporaryDirectory directory;
    Options options;
    options.hold = true;
    FakeGateway gateway(directory.path(), options);
    Trainer trainer(gateway.socket());
    trainer.Start();
    uint64_t op = 0;
    REQUIRE(trainer.Submit(&op) == CW_OK);
    gateway.SendFailed(1, static_cast<local::Code>(code));
    cw_result result = NewResult();
    REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_INTERNAL);
  }
}

TEST_CASE("a fatal error ends the session: every later call answers it") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  gateway.SendError(0, local::Code::kHashMismatch, false, true, "a", "results differ in tensor a");
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_HASH_MISMATCH);
  REQUIRE(trainer.Submit(&op) == CW_HASH_MISMATCH);
  REQUIRE(std::string(LastError().text) == "results differ in tensor a");
  REQUIRE(cw_finish(trainer.handle, 0, nullptr) == CW_HASH_MISMATCH);
}

TEST_CASE("errors that answer a request come out of its call") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kJoin) return false;
    gateway.SendError(message.As<local::Header>().sequence, local::Code::kSchema, false, true, "a",
                      "tensor 0 'a': fp32 [2, 3] here, fp32 [3, 3] at tokyo");
    return true;
  });
  Trainer trainer(gateway.socket());
  REQUIRE(trainer.Join() == CW_SCHEMA);
  REQUIRE(std::string(LastError().tensor) == "a");
  REQUIRE(std::string(LastError().text).find("[3, 3] at tokyo") != std::string::npos);
}

TEST_CASE("a retryable refusal of join can be tried again") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  int refused = 0;
  gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kJoin || refused++ > 0) return false;
    gateway.SendError(message.As<local::Header>().sequence, local::Code::kNotReady, true, false, "",
                      "starting");
    return true;
  });
  Trainer trainer(gateway.socket());
  REQUIRE(trainer.Join() == CW_NOT_READY);
  REQUIRE(LastError().retryable == 1);
  REQUIRE(trainer.Join() == CW_OK);
  REQUIRE(trainer.Join() == CW_ARGUMENT);  // only once
}

TEST_CASE("calls that are wrong are refused before anything happens") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  cw_handle* handle = nullptr;
  REQUIRE(cw_open(nullptr, &handle) == CW_ARGUMENT);
  REQUIRE(OpenHandle(gateway.socket(), &handle, 0, "") == CW_ARGUMENT);
  REQUIRE(OpenHandle(gateway.socket(), &handle, 0, std::string(64, 'r').c_str()) == CW_ARGUMENT);
  REQUIRE(OpenHandle(gateway.socket(), &handle, 0, "demo", 2, 2) == CW_ARGUMENT);
  REQUIRE(OpenHandle(std::string(200, 's'), &handle) == CW_ARGUMENT);
  REQUIRE(OpenHandle(directory.path() + "/none.sock", &handle) == CW_GATEWAY_LOST);
  REQUIRE(std::string(LastError().text).find("none.sock") != std::string::npos);
  REQUIRE(std::string(LastError().text).find("causewayd") != std::string::npos);
  REQUIRE(handle == nullptr);
  REQUIRE(cw_test(nullptr, 1, nullptr) == CW_ARGUMENT);
  cw_close(nullptr);

  Trainer trainer(gateway.socket());
  uint64_t op = 0;
  cw_result result = NewResult();
  REQUIRE(trainer.Submit(&op) == CW_ARGUMENT);
  REQUIRE(trainer.Offer() == CW_ARGUMENT);
  REQUIRE(trainer.Ready(0) == CW_ARGUMENT);
  trainer.Start();
  REQUIRE(cw_test(trainer.handle, 99, &result) == CW_ARGUMENT);
  result.struct_bytes = 4;
  REQUIRE(cw_test(trainer.handle, 1, &result) == CW_ARGUMENT);
  const auto slices = trainer.Slices();
  REQUIRE(cw_read(trainer.handle, 0, 5, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(cw_read(trainer.handle, 3, 0, slices.data(), 2) == CW_ARGUMENT);
  REQUIRE(gateway.Count(Type::kSubmit) == 0);
}

}  // namespace
}  // namespace causeway::test
