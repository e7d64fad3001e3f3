// Submissions in a trainer's device memory, through a whole run: the same values as through the
// segment, screened by the device, and never an empty contribution; what hostile trainers share.
#include <cmath>

#include "compression/codec.h"
#include "tests/unit/run/gateway.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = compression::kChunkElements + 5000;

float Value(int round, uint64_t i) {
  return 0.001f * static_cast<float>((i * 2654435761u + static_cast<uint64_t>(round) * 97) % 4093);
}

// A trainer of one tensor, in fp32.
class Member {
 public:
  explicit Member(Gateway& gateway, uint32_t world = 1) : trainer(gateway.socket()) {
    local::Hello hello = MakeHello();
    hello.world = world;
    session = trainer.SayHello(hello).session;
    Join(kElements);
  }
  ~Member() { Unmap(); }

  void Join(uint64_t elements) {
    Unmap();
    const loop::Descriptor schema = Memfd(BytesOf({Record("w", {elements})}));
    auto join = Make<local::Join>(local::Type::kJoin);
    join.tensors = 1;
    join.outer = 1;
    trainer.Send(join, {schema.get()});
    joined = trainer.Receive<local::Joined>(local::Type::kJoined);
    snapshot = Map(trainer.received.at(1).get(), joined.snapshot_bytes);
  }
  // The device's memory is a memfd of `size` bytes that is said to have `said`.
  local::Shared Share(uint64_t said, uint64_t size, gpu::Uuid uuid = {1, 2, 3}) {
    loop::Descriptor memory = Memfd({});
    REQUIRE(ftruncate(memory.get(), static_cast<off_t>(size)) == 0);
    auto share = Make<local::Share>(local::Type::kShare);
    share.bytes = said;
    share.kind = static_cast<uint8_t>(local::DeviceMemory::kCudaVmm);
    std::copy(uuid.begin(), uuid.end(), share.device);
    trainer.Send(share, {memory.get()});
    const auto shared = trainer.Receive<local::Shared>(local::Type::kShared);
    if (shared.accepted != 0) device = Map(memory.get(), joined.snapshot_bytes);
    return shared;
  }
  void ShareAll() { REQUIRE(Share(joined.snapshot_bytes, joined.snapshot_bytes).accepted == 1); }
  void Begin() {
    Write(snapshot, 0);
    trainer.Send(Make<local::Offer>(local::Type::kOffer));
    trainer.Receive<local::Ready>(local::Type::kReady);
  }
  static void Write(std::byte* memory, int round) {
    for (uint64_t i = 0; i < kElements; ++i) reinterpret_cast<float*>(memory)[i] = Value(round, i);
  }
  // Where a device is in use, what lies in the segment is not looked at.
  void Submit(int64_t round) {
    Write(device != nullptr ? device : snapshot, static_cast<int>(round) + 1);
    if (device != nullptr) std::memset(snapshot, 0xff, joined.snapshot_bytes);
    SendSubmit(round);
  }
  void SendSubmit(int64_t round) {
    auto submit = Make<local::Submit>(local::Type::kSubmit);
    submit.op = static_cast<uint64_t>(round) + 1;
    submit.base_round = round;
    submit.weight = 1;
    submit.memory =
        static_cast<uint8_t>(device != nullptr ? local::Memory::kDevice : local::Memory::kHost);
    trainer.Send(submit);
  }
  void Round(int64_t round) {
    Submit(round);
    trainer.Receive<local::Submitted>(local::Type::kSubmitted);
    local::OpState state{};
    do {
      state = trainer.Receive<local::OpState>(local::Type::kOpState);
    } while (state.state == static_cast<uint8_t>(local::State::kPending));
    REQUIRE(state.state == static_cast<uint8_t>(local::State::kCommitted));
    wire_bytes.push_back(state.wire_bytes);
    auto applied = Make<local::Applied>(local::Type::kApplied);
    applied.round = state.round;
    trainer.Send(applied);
  }
  std::vector<uint8_t> Finish() {
    trainer.Send(Make<local::Finish>(local::Type::kFinish));
    const auto finished = trainer.Receive<local::Finished>(local::Type::kFinished);
    return {std::begin(finished.values_hash), std::end(finished.values_hash)};
  }

  Trainer trainer;
  uint64_t session = 0;
  local::Joined joined{};
  std::byte* snapshot = nullptr;
  std::byte* device = nullptr;  // null: it submits through the segment
  std::vector<uint64_t> wire_bytes;

 private:
  static std::byte* Map(int descriptor, uint64_t size) {
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    REQUIRE(data != MAP_FAILED);
    return static_cast<std::byte*>(data);
  }
  void Unmap() {
    if (snapshot != nullptr) munmap(snapshot, joined.snapshot_bytes);
    if (device != nullptr) munmap(device, joined.snapshot_bytes);
    snapshot = device = nullptr;
  }
};

TEST_CASE("submissions in a device's memory end in the same values as through the segment") {
  for (const char* codec : {"int8", "2bit"}) {  // the second has no kernels
    CAPTURE(codec);
    auto gpu = std::make_shared<SharedGpu>();
    std::vector<uint8_t> hash[2];
    std::vector<uint64_t> bytes[2];
    for (int on_device : {0, 1}) {
      Gateway gateway(gpu, codec);
      Member member(gateway);
      if (on_device == 1) member.ShareAll();
      member.Begin();
      CHECK(gpu->scanned == 0);  // first values are in the segment
      for (int64_t round = 0; round < 3; ++round) member.Round(round);
      hash[on_device] = member.Finish();
      bytes[on_device] = member.wire_bytes;
      if (on_device == 0) CHECK(gpu->encoded == 0);
    }
    CHECK(gpu->scanned == 3);
    CHECK(gpu->encoded == (std::string(codec) == "int8" ? 6 : 0));
    CHECK(hash[0] == hash[1]);
    CHECK(bytes[0] == bytes[1]);
  }
}

TEST_CASE("a NaN in a device's memory is refused by the device's scan, and the next try goes on") {
  auto gpu = std::make_shared<SharedGpu>();
  Gateway gateway(gpu);
  Member member(gateway);
  member.ShareAll();
  member.Begin();
  Member::Write(member.device, 1);
  reinterpret_cast<float*>(member.device)[kElements - 1] = NAN;
  member.SendSubmit(0);
  const local::Error error = member.trainer.ReceiveError(local::Code::kNonfinite);
  CHECK(std::string(error.tensor) == "w");
  CHECK(error.fatal == 0);
  CHECK(gpu->encoded == 0);
  member.Round(0);
}

TEST_CASE("a device that fails is reported, and the operation does not end") {
  auto gpu = std::make_shared<SharedGpu>();
  for (bool while_encoding : {false, true}) {
    CAPTURE(while_encoding);
    gpu->broken = false;
    Gateway gateway(gpu);
    Member member(gateway);
    member.ShareAll();
    member.Begin();
    gpu->Hold(true);
    if (!while_encoding) gpu->broken = true;
    member.Submit(0);
    if (while_encoding) {
      member.trainer.Receive<local::Submitted>(local::Type::kSubmitted);
      gpu->WaitEntered();
      gpu->broken = true;
    }
    gpu->Hold(false);
    CHECK(gateway.WaitFailed().code() == absl::StatusCode::kUnavailable);
    auto query = Make<local::Query>(local::Type::kQuery);
    query.session = member.session;
    query.op = 1;
    member.trainer.Send(query);
    const auto state = member.trainer.Receive<local::OpState>(local::Type::kOpState);
    CHECK(state.state == static_cast<uint8_t>(local::State::kPending));
  }
}

TEST_CASE("a trainer's death unmaps its device once nothing is encoded from it") {
  auto gpu = std::make_shared<SharedGpu>();
  Gateway gateway(gpu);
  {
    Member idle(gateway);
    idle.ShareAll();
    CHECK(gpu->mapped() == 1);
  }
  gpu->WaitMapped(0);
  gateway.WaitGone(1);
  {
    Member member(gateway);
    member.ShareAll();
    member.Begin();
    gpu->Hold(true);
    member.Submit(0);
    member.trainer.Receive<local::Submitted>(local::Type::kSubmitted);
    gpu->WaitEntered();
  }
  gateway.WaitGone(2);
  CHECK(gpu->mapped() == 1);  // it is being read
  gpu->Hold(false);
  gpu->WaitMapped(0);
  Member next(gateway);
  next.Begin();  // the gateway serves on, through the segment
}

TEST_CASE("what is shared must be this gateway's GPU's, and as large as it says") {
  auto gpu = std::make_shared<SharedGpu>();
  Gateway gateway(gpu);
  Member member(gateway);
  const uint64_t bytes = member.joined.snapshot_bytes;
  const uint64_t huge = uint64_t{1} << 62;
  CHECK(std::string(member.Share(bytes, bytes, {9}).reason).find("another GPU") !=
        std::string::npos);
  CHECK(std::string(member.Share(huge, bytes).reason).find("where snapshots take") !=
        std::string::npos);
  CHECK(std::string(member.Share(bytes + 1, bytes).reason).find("smaller than it says") !=
        std::string::npos);
  CHECK(gpu->mapped() == 0);
  member.ShareAll();
  member.ShareAll();  // as after a lost connection
  gpu->WaitMapped(1);

  // Mapped for one schema, it is not read by the layout of another.
  const auto device = std::exchange(member.device, nullptr);
  munmap(device, bytes);
  member.Join(4 * kElements);
  gpu->WaitMapped(0);
  std::memset(member.snapshot, 0, member.joined.snapshot_bytes);
  member.trainer.Send(Make<local::Offer>(local::Type::kOffer));
  member.trainer.Receive<local::Ready>(local::Type::kReady);
  auto submit = Make<local::Submit>(local::Type::kSubmit);
  submit.op = 1;
  submit.memory = static_cast<uint8_t>(local::Memory::kDevice);
  member.trainer.Send(submit);
  CHECK(member.trainer.ReceiveError(local::Code::kProtocol).fatal == 1);
}

TEST_CASE("gateways without a GPU, and several ranks, submit through the segment") {
  Gateway plain(nullptr);
  Member alone(plain);
  const local::Shared no = alone.Share(alone.joined.snapshot_bytes, alone.joined.snapshot_bytes);
  CHECK(std::string(no.reason) == "this gateway uses no GPU");
  Gateway gateway(std::make_shared<SharedGpu>());
  Member rank(gateway, 2);
  CHECK(rank.Share(rank.joined.snapshot_bytes, rank.joined.snapshot_bytes).accepted == 0);
}

}  // namespace
}  // namespace causeway::testing
