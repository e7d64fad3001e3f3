// Whatever a gateway sends, the trainer's process survives, says what was wrong and maps nothing
// absurd.
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <random>

#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

template <typename T>
T Message(Type type) {
  T message{};
  message.header.magic = local::kMagic;
  message.header.version = 1;
  message.header.type = static_cast<uint16_t>(type);
  message.header.size = sizeof(T);
  message.header.sequence = 100;
  return message;
}

// Sends bytes to a trainer that has an operation pending; the wait must end with PROTOCOL.
void RequireRefused(const void* bytes, size_t size, const std::vector<int>& descriptors = {}) {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  const std::vector<float> before = trainer.a;
  gateway.SendBytes(bytes, size, descriptors);
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.handle, op, 20'000, &result) == CW_PROTOCOL);
  REQUIRE(LastError().retryable == 0);
  REQUIRE(std::string(LastError().text).size() > 20);
  REQUIRE(trainer.Submit(&op) == CW_PROTOCOL);
  REQUIRE(trainer.a == before);
}

TEST_CASE("malformed headers") {
  const auto good = Message<local::OpState>(Type::kOpState);
  const std::vector<std::function<void(local::Header&)>> lies = {
      [](local::Header& h) { h.magic ^= 1; },
      [](local::Header& h) { h.version = 2; },
      [](local::Header& h) { h.version = 0; },
      [](local::Header& h) { h.type = 0; },
      [](local::Header& h) { h.type = 999; },
      [](local::Header& h) { h.size -= 1; },
      [](local::Header& h) { h.size = UINT32_MAX; },
      [](local::Header& h) { h.zero = 1; },
      [](local::Header& h) { h.type = static_cast<uint16_t>(Type::kSubmit); },
      [](local::Header& h) { h.type = static_cast<uint16_t>(Type::kAwaiting); },
      [](local::Header& h) { h.type = static_cast<uint16_t>(Type::kWelcome); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    local::OpState message = good;
    lies[i](message.header);
    RequireRefused(&message, sizeof(message));
  }
}

TEST_CASE("datagrams of a wrong length") {
  std::vector<uint8_t> bytes(8192);
  auto message = Message<local::OpState>(Type::kOpState);
  for (size_t size : {size_t{1}, size_t{31}, size_t{32}, sizeof(message) - 1, sizeof(message) + 1,
                      size_t{4096}, size_t{4097}, size_t{8192}}) {
    INFO("size " << size);
    message.header.size = static_cast<uint32_t>(size);
    std::memcpy(bytes.data(), &message, sizeof(message));
    RequireRefused(bytes.data(), size);
  }
}

TEST_CASE("states that cannot be") {
  auto good = Message<local::OpState>(Type::kOpState);
  good.op = 1;
  good.state = static_cast<uint8_t>(local::State::kCommitted);
  good.round = 1;
  const std::vector<std::function<void(local::OpState&)>> lies = {
      [](local::OpState& m) { m.state = 7; },
      [](local::OpState& m) { m.state = 0; },  // UNKNOWN answers a Query only
      [](local::OpState& m) { m.fragment = 1; },
      [](local::OpState& m) { m.fragment = 256; },
      [](local::OpState& m) { m.round = -1; },
      [](local::OpState& m) { m.round = 0; },  // not newer than its base
      [](local::OpState& m) { m.in_doubt = 2; },
      [](local::OpState& m) { m.nonfinite = 9; },
      [](local::OpState& m) { m.zero[6] = 1; },
      [](local::OpState& m) { m.participants = 65; },
      [](local::OpState& m) { std::memset(m.awaited, 'x', sizeof(m.awaited)); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    local::OpState message = good;
    lies[i](message);
    RequireRefused(&message, sizeof(message));
  }
}

TEST_CASE("descriptors nobody asked for") {
  const int descriptor = memfd_create("gift", MFD_CLOEXEC);
  const auto message = Message<local::OpState>(Type::kOpState);
  RequireRefused(&message, sizeof(message), {descriptor});
  RequireRefused(&message, sizeof(message), std::vector<int>(10, descriptor));
  close(descriptor);
}

TEST_CASE("errors, submissions and ends that are malformed") {
  auto error = Message<local::Error>(Type::kError);
  error.code = 20;
  std::memset(error.text, 'x', sizeof(error.text));
  RequireRefused(&error, sizeof(error));
  error = Message<local::Error>(Type::kError);
  RequireRefused(&error, sizeof(error));  // code 0
  error.code = 1;
  error.fatal = 2;
  RequireRefused(&error, sizeof(error));
  const auto submitted = Message<local::Submitted>(Type::kSubmitted);
  RequireRefused(&submitted, sizeof(submitted));  // op 0
  auto ready = Message<local::Ready>(Type::kReady);
  ready.fragments = local::kFragmentsMax + 1;
  ready.members = 1;
  RequireRefused(&ready, sizeof(ready));
  ready.fragments = 2;  // not what Joined said
  RequireRefused(&ready, sizeof(ready));
}

TEST_CASE("states of operations that nobody has, and random bytes, harm nothing") {
  constexpr uint64_t kSeed = 77;
  INFO("seed " << kSeed);
  std::mt19937_64 generator(kSeed);
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  Trainer trainer(gateway.socket());
  trainer.Start();
  for (int i = 0; i < 2000; ++i) {
    auto message = Message<local::OpState>(Type::kOpState);
    message.op = 1000 + generator() % 1000;
    message.state = static_cast<uint8_t>(1 + generator() % 6);
    message.round = static_cast<int64_t>(generator() % 100);
    gateway.SendBytes(&message, sizeof(message));
    if (i % 50 == 0) {
      cw_result result = NewResult();
      REQUIRE(cw_test(trainer.handle, 5, &result) == CW_ARGUMENT);  // reads what has arrived
    }
  }
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  trainer.ApplyAndTell(op);
  std::vector<uint8_t> bytes(500);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(generator());
  gateway.SendBytes(bytes.data(), bytes.size());
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.handle, 5, 20'000, &result) != CW_OK);
}

// Answers Join with a forged Joined.
void RequireJoinRefused(const std::function<void(local::Joined&, std::vector<int>&)>& forge,
                        int code, const std::string& word) {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  fake::Memory layout, snapshot, values;
  layout.Make(4096, true);
  snapshot.Make(4096, true);
  values.Make(8192, true);
  local::FragmentRecord fragment{};
  fragment.elements = 512;
  fragment.values_offset[1] = 4096;
  local::PlacementRecord places[2] = {};
  places[0].elements = 6;
  places[1].elements = 5;
  places[1].first_element = 256;
  std::memcpy(layout.data, &fragment, sizeof(fragment));
  std::memcpy(layout.data + sizeof(fragment), places, sizeof(places));
  gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type != Type::kJoin) return false;
    auto joined = Message<local::Joined>(Type::kJoined);
    joined.header.answers = message.As<local::Header>().sequence;
    joined.fragments = 1;
    joined.tensors = 2;
    joined.snapshot_bytes = 4096;
    joined.values_bytes = 8192;
    joined.layout_bytes = sizeof(fragment) + sizeof(places);
    joined.local_steps = 4;
    joined.outer = 1;
    std::vector<int> descriptors = {layout.descriptor, snapshot.descriptor, values.descriptor};
    forge(joined, descriptors);
    gateway.SendBytes(&joined, sizeof(joined), descriptors);
    return true;
  });
  Trainer trainer(gateway.socket());
  const int got = trainer.Join();
  INFO(LastError().text);
  REQUIRE(got == code);
  if (code != CW_OK) {
    REQUIRE(std::string(LastError().text).find(word) != std::string::npos);
  }
}

TEST_CASE("a forged Joined: sizes, counts, descriptors") {
  using Forge = std::function<void(local::Joined&, std::vector<int>&)>;
  struct Case {
    Forge forge;
    int code;
    const char* word;
  };
  fake::Memory unsealed, small;
  unsealed.Make(8192, false);
  small.Make(64, true);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Case cases[] = {
      {[](local::Joined&, std::vector<int>&) {}, CW_OK, ""},
      {[](local::Joined& m, std::vector<int>&) { m.fragments = 0; }, CW_PROTOCOL, "fragments"},
      {[](local::Joined& m, std::vector<int>&) { m.fragments = 257; }, CW_PROTOCOL, "fragments"},
      {[](local::Joined& m, std::vector<int>&) { m.fragments = UINT32_MAX; }, CW_PROTOCOL,
       "fragments"},
      {[](local::Joined& m, std::vector<int>&) { m.tensors = 65537; }, CW_PROTOCOL, "tensors"},
      {[](local::Joined& m, std::vector<int>&) { m.tensors = 1; }, CW_PROTOCOL, "tensors"},
      {[](local::Joined& m, std::vector<int>&) { m.snapshot_bytes = UINT64_MAX; }, CW_PROTOCOL,
       "size"},
      {[](local::Joined& m, std::vector<int>&) { m.values_bytes = uint64_t{1} << 40; }, CW_PROTOCOL,
       "smaller"},
      {[](local::Joined& m, std::vector<int>&) { m.layout_bytes = UINT64_MAX; }, CW_PROTOCOL,
       "size"},
      {[](local::Joined& m, std::vector<int>&) { m.layout_bytes = 8; }, CW_PROTOCOL, "size"},
      {[](local::Joined& m, std::vector<int>&) { m.snapshot_bytes = 64; }, CW_PROTOCOL, "beyond"},
      {[](local::Joined& m, std::vector<int>&) { m.local_steps = 0; }, CW_PROTOCOL, "local_steps"},
      {[](local::Joined& m, std::vector<int>&) { m.delay_steps = 4; }, CW_PROTOCOL, "delay"},
      {[](local::Joined& m, std::vector<int>&) { m.apply_mode = 3; }, CW_PROTOCOL, "apply"},
      {[](local::Joined& m, std::vector<int>&) { m.mix = 1.5f; }, CW_PROTOCOL, "mix"},
      {[](local::Joined& m, std::vector<int>&) { m.outer = 2; }, CW_PROTOCOL, "outer"},
      {[](local::Joined& m, std::vector<int>&) { m.zero = 1; }, CW_PROTOCOL, "zero"},
      {[](local::Joined& m, std::vector<int>&) { std::memset(m.rule, 'x', 32); }, CW_PROTOCOL,
       "without an end"},
      {[](local::Joined&, std::vector<int>& d) { d.pop_back(); }, CW_PROTOCOL, "descriptors"},
      {[](local::Joined&, std::vector<int>& d) { d.push_back(d[0]); }, CW_PROTOCOL, "descriptors"},
      {[](local::Joined&, std::vector<int>& d) { d.resize(12, d[0]); }, CW_PROTOCOL, "descriptors"},
      {[](local::Joined&, std::vector<int>& d) { d.clear(); }, CW_PROTOCOL, "descriptors"},
      {[&](local::Joined&, std::vector<int>& d) { d[2] = unsealed.descriptor; }, CW_PROTOCOL,
       "not sealed"},
      {[&](local::Joined&, std::vector<int>& d) { d[1] = small.descriptor; }, CW_PROTOCOL,
       "smaller"},
      {[&](local::Joined&, std::vector<int>& d) { d[0] = ends[0]; }, CW_PROTOCOL, "sealed"},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    INFO("case " << i);
    RequireJoinRefused(cases[i].forge, cases[i].code, cases[i].word);
  }
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a gateway that speaks before the greeting, or never, does not hold the caller") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  const auto state = Message<local::OpState>(Type::kOpState);
  gateway.SetHook([&](size_t, const fake::Received& message) {
    if (message.type == Type::kHello) gateway.SendBytes(&state, sizeof(state));
    return true;
  });
  cw_handle* handle = nullptr;
  REQUIRE(OpenHandle(gateway.socket(), &handle) == CW_PROTOCOL);
  REQUIRE(handle == nullptr);
  gateway.SetHook([&](size_t, const fake::Received&) {
    gateway.Disconnect();
    return true;
  });
  REQUIRE(OpenHandle(gateway.socket(), &handle) == CW_GATEWAY_LOST);
}

TEST_CASE(
    "a trainer cannot truncate or reseal the gateway's memory, and the schema cannot be changed") {
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  Trainer trainer(gateway.socket());
  trainer.Start();
  // The shim keeps no descriptor of it open: the memory is reachable through its mappings alone.
  int shared = 0;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    char target[256] = "";
    if (readlink(link.c_str(), target, sizeof(target) - 1) <= 0) continue;
    if (std::string(target).find("causeway-schema") != std::string::npos) ++shared;
    if (std::string(target).find("fake-gateway") == std::string::npos) continue;
    // What the fake itself holds stands for a descriptor that a hostile trainer kept.
    REQUIRE(ftruncate(descriptor, 0) == -1);
    REQUIRE(errno == EPERM);
  }
  REQUIRE(shared == 0);
}

}  // namespace
}  // namespace causeway::test
