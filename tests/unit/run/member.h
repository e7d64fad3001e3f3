// A trainer of a run of one tensor that speaks the local protocol by hand, step by step.
#ifndef CAUSEWAY_TESTS_UNIT_RUN_MEMBER_H_
#define CAUSEWAY_TESTS_UNIT_RUN_MEMBER_H_

#include <algorithm>
#include <cstring>

#include "compression/codec.h"
#include "tests/unit/run/gateway.h"

namespace causeway::testing {

inline constexpr uint64_t kElements = compression::kChunkElements + 5000;

inline float Value(int round, uint64_t i) {
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

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_RUN_MEMBER_H_
