// Submissions in a trainer's device memory, through a whole run: the same values as through the
// segment, screened by the device, and never an empty contribution; what hostile trainers share.
#include <cmath>

#include "tests/unit/run/member.h"

namespace causeway::testing {
namespace {

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
