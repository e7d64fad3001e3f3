// Tensors of a GPU, against a stand-in for the driver whose streams do nothing before they must:
// the order of copies, the ways of the snapshot, sharing, and each call that may fail.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/unit/client/cuda_stand_in.h"
#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;
using local::Type;

constexpr size_t kA = 6, kB = 5;

// support.h's trainer with its tensors on the device.
struct CudaTrainer {
  explicit CudaTrainer(const std::string& socket) : host(socket) {
    stream = stand_in::NewStream();
    a = stand_in::Allocate(host.a);
    b = stand_in::Allocate(host.b);
  }

  int Use(bool private_only = false) {
    cw_cuda cuda{};
    cuda.struct_bytes = sizeof(cuda);
    cuda.stream = stream;
    cuda.private_only = private_only ? 1 : 0;
    return cw_cuda_use(host.handle, &cuda, &shared);
  }
  void Start(bool private_only = false) {
    REQUIRE(host.Join() == CW_OK);
    const int code = Use(private_only);
    INFO(LastError().text);
    REQUIRE(code == CW_OK);
    const auto slices = Slices();
    REQUIRE(cw_offer(host.handle, slices.data(), 2) == CW_OK);
    REQUIRE(host.Ready() == CW_OK);
  }
  std::vector<cw_slice> Slices() const {
    return {cw_slice{0, 0, CW_MEMORY_CUDA, {}, 0, CW_WHOLE, a, nullptr, nullptr},
            cw_slice{1, 0, CW_MEMORY_CUDA, {}, 0, CW_WHOLE, b, nullptr, nullptr}};
  }
  // Work of the trainer, in the order of its stream.
  void Add(float value) const {
    stand_in::EnqueueAdd(stream, a, kA, value);
    stand_in::EnqueueAdd(stream, b, kB, value);
  }
  int Submit(uint64_t* op) const {
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.base_round = CW_BASE_CURRENT;
    submission.weight = 1;
    const auto slices = Slices();
    return cw_submit(host.handle, &submission, slices.data(), 2, op);
  }
  int Apply(uint64_t op, cw_apply_mode mode = CW_CARRY) const {
    const auto slices = Slices();
    return cw_apply(host.handle, op, mode, 0, slices.data(), 2);
  }
  std::vector<float> A() const {
    stand_in::Synchronize(stream);
    return stand_in::Read(a, kA);
  }

  Trainer host;
  void* stream;
  void* a;
  void* b;
  int shared = -1;
};

std::vector<float> Plus(std::vector<float> values, float more) {
  for (float& value : values) value += more;
  return values;
}

const std::vector<float> kStart{0, 1, 2, 3, 4, 5};

// Everything that was made of the driver is given back.
struct Clean {
  Clean() { stand_in::Reset(); }
  ~Clean() { CHECK(stand_in::Leaks() == ""); }
};

void Exchange(CudaTrainer& trainer) {
  trainer.Add(2);
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  trainer.Add(100);  // after the submission, on the same stream: not in it
  const cw_result result = trainer.host.Wait(op);
  REQUIRE(result.state == CW_STATE_COMMITTED);
  trainer.Add(1000);  // before the apply: carried over
  REQUIRE(trainer.Apply(op) == CW_OK);
  REQUIRE(cw_applied(trainer.host.handle, 0, result.round) == CW_OK);
}

TEST_CASE("a device's tensors: what is on the stream before is sent, what comes later is carried") {
  struct Way {
    const char* name;
    bool shareable, accepted, private_only;
    uint64_t device_bytes;
  };
  const Way ways[] = {
      {"a snapshot that cannot be shared", false, false, false, uint64_t{1} << 40},
      {"a shareable snapshot that the gateway does not take", true, false, false,
       uint64_t{1} << 40},
      {"nothing is offered", true, true, true, uint64_t{1} << 40},
      {"no room for a snapshot", false, false, false, 0},
      {"the gateway reads the snapshot on the device", true, true, false, uint64_t{1} << 40},
  };
  for (const Way& way : ways) {
    INFO(way.name);
    const Clean clean;
    TemporaryDirectory directory;
    Options options;
    options.share = way.accepted;
    FakeGateway gateway(directory.path(), options);
    {
      CudaTrainer trainer(gateway.socket());
      stand_in::SetShareable(way.shareable);
      stand_in::SetDeviceBytes(way.device_bytes);
      trainer.Start(way.private_only);
      const bool shared = way.shareable && way.accepted && !way.private_only;
      REQUIRE(trainer.shared == (shared ? 1 : 0));
      for (int round = 1; round <= 2; ++round) {
        Exchange(trainer);
        REQUIRE(trainer.A() == Plus(kStart, 1102.0f * static_cast<float>(round)));
        REQUIRE(gateway.Values(0)[5] ==
                5 + 2.0f * static_cast<float>(round) + 1100.0f * static_cast<float>(round - 1));
      }
      // Two tensors: the offer, then a round's submission and its apply; what was sent is read back
      // where it stayed on the device.
      REQUIRE(stand_in::Count("cuMemcpyDtoHAsync") == 2 + 2 * (2 + 2));
      REQUIRE(gateway.Values(0)[100] == 0);  // padding
      REQUIRE(gateway.Count(Type::kShare) == (way.shareable && !way.private_only ? 1u : 0u));
    }
  }
}

TEST_CASE("a submission is announced when its copy has ended, not before") {
  const Clean clean;
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  CudaTrainer trainer(gateway.socket());
  trainer.Start();
  stand_in::Hold();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);  // does not wait for it
  cw_result result = NewResult();
  REQUIRE(cw_test(trainer.host.handle, op, &result) == CW_OK);
  REQUIRE(result.state == CW_STATE_SNAPSHOT);
  REQUIRE(cw_wait(trainer.host.handle, op, 0, &result) == CW_TIMEOUT);
  REQUIRE(cw_abandon(trainer.host.handle, op) == CW_BUSY);
  REQUIRE(gateway.Count(Type::kSubmit) == 0);
  stand_in::Release();
  REQUIRE(trainer.host.Wait(op).state == CW_STATE_COMMITTED);
  REQUIRE(gateway.Count(Type::kSubmit) == 1);
}

TEST_CASE("a copy that ends while the gateway is away is announced when it is back") {
  for (const bool remember : {true, false}) {
    for (const bool accepted : {false, true}) {
      INFO("remember " << remember << ", accepted " << accepted);
      const Clean clean;
      TemporaryDirectory directory;
      Options options;
      options.share = true;
      FakeGateway gateway(directory.path(), options);
      {
        CudaTrainer trainer(gateway.socket());
        trainer.Start();
        REQUIRE(trainer.shared == 1);
        trainer.Add(2);
        stand_in::Hold();
        uint64_t op = 0;
        REQUIRE(trainer.Submit(&op) == CW_OK);
        gateway.Stop();
        gateway.SetOptions([&](Options& o) { o.share = accepted; });
        cw_result result = NewResult();
        REQUIRE(cw_wait(trainer.host.handle, op, 20'000, &result) == CW_GATEWAY_LOST);
        stand_in::Release();
        gateway.Start(remember);
        REQUIRE(trainer.host.Wait(op).state == CW_STATE_COMMITTED);
        REQUIRE(gateway.Values(0)[5] == 7);
        REQUIRE(trainer.Apply(op) == CW_OK);
        REQUIRE(trainer.A() == Plus(kStart, 2));
      }
    }
  }
}

TEST_CASE("an excluded contribution, a mix and a replacement of a device's tensors") {
  const Clean clean;
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  CudaTrainer trainer(gateway.socket());
  trainer.Start();
  trainer.Add(2);
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  REQUIRE(gateway.WaitCount(Type::kSubmit, 1));
  trainer.Add(1);
  gateway.Exclude(0, std::vector<float>(512, 50.0f));
  REQUIRE(trainer.host.Wait(op).state == CW_STATE_EXCLUDED);
  REQUIRE(trainer.Apply(op) == CW_OK);
  REQUIRE(trainer.A() == std::vector<float>(kA, 53.0f));
  REQUIRE(trainer.Apply(op, CW_REPLACE) == CW_OK);
  REQUIRE(trainer.A() == std::vector<float>(kA, 50.0f));
  auto slices = trainer.Slices();
  void* const cast = stand_in::Allocate(std::vector<float>(kA, 0));
  slices[0].cast = cast;
  slices[0].cast_dtype = CW_FP32;
  REQUIRE(cw_read(trainer.host.handle, 0, 1, slices.data(), 2) == CW_OK);
  REQUIRE(stand_in::Read(cast, kA) == std::vector<float>(kA, 50.0f));
}

TEST_CASE("a host tensor beside a device's in one submission") {
  for (const bool share : {false, true}) {
    const Clean clean;
    TemporaryDirectory directory;
    Options options;
    options.share = share;
    FakeGateway gateway(directory.path(), options);
    CudaTrainer trainer(gateway.socket());
    trainer.Start();
    auto slices = trainer.Slices();
    std::vector<float> on_host{1, 2, 3, 4, 5};
    slices[1].memory = CW_MEMORY_HOST;
    slices[1].data = on_host.data();
    cw_submission submission{};
    submission.struct_bytes = sizeof(submission);
    submission.base_round = CW_BASE_CURRENT;
    submission.weight = 1;
    uint64_t op = 0;
    REQUIRE(cw_submit(trainer.host.handle, &submission, slices.data(), 2, &op) == CW_OK);
    REQUIRE(trainer.host.Wait(op).state == CW_STATE_COMMITTED);
    REQUIRE(gateway.Values(0)[256] == 1);
    REQUIRE(gateway.Values(0)[260] == 5);
    REQUIRE(cw_apply(trainer.host.handle, op, CW_CARRY, 0, slices.data(), 2) == CW_OK);
    REQUIRE(on_host == std::vector<float>{1, 2, 3, 4, 5});
  }
}

TEST_CASE("what is refused of a device, and calls of the driver that fail") {
  const Clean clean;
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  CudaTrainer trainer(gateway.socket());
  REQUIRE(trainer.Use() == CW_ARGUMENT);  // before cw_join
  REQUIRE(trainer.host.Join() == CW_OK);
  auto slices = trainer.Slices();
  REQUIRE(cw_offer(trainer.host.handle, slices.data(), 2) == CW_ARGUMENT);  // before cw_cuda_use
  for (const char* symbol : {"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuDeviceGetUuid"}) {
    stand_in::Fail(symbol, 1, 719);
    REQUIRE(trainer.Use() == CW_CUDA);
    REQUIRE(std::string(LastError().text).find("LAUNCH_FAILED (719)") != std::string::npos);
  }
  REQUIRE(trainer.Use() == CW_OK);
  stand_in::Fail("cuMemcpyDtoHAsync", 2, 719);
  REQUIRE(cw_offer(trainer.host.handle, slices.data(), 2) == CW_CUDA);
  REQUIRE(cw_offer(trainer.host.handle, slices.data(), 2) == CW_OK);
  REQUIRE(trainer.host.Ready() == CW_OK);

  uint64_t op = 0;
  stand_in::SetCapturing(true);
  REQUIRE(trainer.Submit(&op) == CW_ARGUMENT);
  REQUIRE(std::string(LastError().text).find("captured") != std::string::npos);
  stand_in::SetCapturing(false);
  for (const char* symbol : {"cuMemcpyDtoDAsync", "cuEventCreate", "cuEventRecord",
                             "cuStreamWaitEvent", "cuMemcpyDtoHAsync", "cuCtxPushCurrent"}) {
    INFO(symbol);
    stand_in::Fail(symbol, 1, 719);
    REQUIRE(trainer.Submit(&op) == CW_CUDA);  // nothing was submitted: the next may be
  }
  stand_in::Fail("cuEventSynchronize", 1, 719);  // in the announcer's thread
  REQUIRE(trainer.Submit(&op) == CW_OK);
  cw_result result = NewResult();
  REQUIRE(cw_wait(trainer.host.handle, op, 20'000, &result) == CW_CUDA);
  REQUIRE(gateway.Count(Type::kSubmit) == 0);

  REQUIRE(trainer.Submit(&op) == CW_OK);
  REQUIRE(trainer.host.Wait(op).state == CW_STATE_COMMITTED);
  const std::vector<float> before = trainer.A();
  stand_in::Fail("cuMemcpyDtoHAsync", 2, 719);
  REQUIRE(trainer.Apply(op) == CW_CUDA);
  REQUIRE(trainer.A() == before);  // all or nothing
  REQUIRE(trainer.Apply(op) == CW_OK);
}

TEST_CASE("a fork leaves the parent's device alone") {
  const Clean clean;
  TemporaryDirectory directory;
  FakeGateway gateway(directory.path());
  CudaTrainer trainer(gateway.socket());
  trainer.Start();
  const size_t calls = stand_in::Calls().size();
  const pid_t child = fork();
  if (child == 0) {
    uint64_t op = 0;
    const bool refused = trainer.Submit(&op) == CW_FORKED;
    cw_close(trainer.host.handle);
    _exit(refused && stand_in::Calls().size() == calls ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  Exchange(trainer);
  REQUIRE(trainer.A() == Plus(kStart, 1102));
}

}  // namespace
}  // namespace causeway::test
