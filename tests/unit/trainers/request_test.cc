// The parser of trainers' messages as a pure function.
#include "daemon/trainers/request.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/trainers/trainer.h"

namespace causeway::trainers {
namespace {

using local::Type;
using testing::Make;

template <typename Message>
absl::StatusOr<Request> Parse(Message message, size_t descriptors = 0, uint16_t version = 1) {
  message.header.sequence = 5;
  return ParseRequest({reinterpret_cast<const uint8_t*>(&message), sizeof(message)}, descriptors,
                      version);
}

TEST_CASE("every field of every request arrives") {
  auto hello = testing::MakeHello(3);
  hello.token[15] = 9;
  hello.version_max = 4;
  const auto h = std::get<HelloRequest>(*Parse(hello, 0, 0));
  CHECK(h.rank == 3);
  CHECK(h.world == 8);
  CHECK(h.run == "demo");
  CHECK(h.token[15] == 9);
  CHECK(h.version_max == 4);
  CHECK(h.sequence == 5);

  auto join = Make<local::Join>(Type::kJoin);
  join.tensors = 148;
  join.init = 2;
  join.local_steps = 20;
  const auto j = std::get<JoinRequest>(*Parse(join, 1));
  CHECK(j.tensors == 148);
  CHECK(j.init == local::Init::kMatch);
  CHECK(!j.outer);
  CHECK(j.local_steps == 20);

  auto submit = Make<local::Submit>(Type::kSubmit);
  submit.op = 7;
  submit.fragment = 3;
  submit.origin = 1;
  submit.base_round = 11;
  submit.weight = UINT64_MAX;
  submit.memory = 1;
  const auto s = std::get<SubmitRequest>(*Parse(submit));
  CHECK(s.op == 7);
  CHECK(s.fragment == 3);
  CHECK(s.origin == local::Origin::kOlder);
  CHECK(s.base_round == 11);
  CHECK(s.weight == UINT64_MAX);
  CHECK(s.memory == local::Memory::kDevice);

  auto share = Make<local::Share>(Type::kShare);
  share.bytes = uint64_t{1} << 40;
  share.kind = 1;
  share.device[15] = 3;
  const auto shared = std::get<ShareRequest>(*Parse(share, 1));
  CHECK(shared.bytes == uint64_t{1} << 40);
  CHECK(shared.device[15] == 3);
  share.kind = 2;
  CHECK(!Parse(share, 1).ok());
  share.kind = 1;
  share.bytes = 0;
  CHECK(!Parse(share, 1).ok());

  auto offer = Make<local::Offer>(Type::kOffer);
  offer.slices = 3;
  CHECK(std::get<OfferRequest>(*Parse(offer, 1)).slices == 3);
  CHECK(!Parse(offer).ok());

  auto query = Make<local::Query>(Type::kQuery);
  query.session = 1;
  query.op = 2;
  CHECK(std::get<QueryRequest>(*Parse(query)).session == 1);
  CHECK(std::holds_alternative<LeaveRequest>(*Parse(Make<local::Leave>(Type::kLeave))));
}

TEST_CASE("messages that only the daemon sends are refused") {
  for (int type = 0; type < 25; ++type) {
    INFO("type " << type);
    auto message = Make<local::Finish>(static_cast<Type>(type));
    const bool bare = type == 15 || type == 17;  // Finish, Leave have no body
    CHECK(Parse(message, type == 3 ? 1 : 0).ok() == bare);
  }
}

TEST_CASE("values outside their enumerations") {
  auto join = Make<local::Join>(Type::kJoin);
  join.tensors = 1;
  CHECK(Parse(join, 1).ok());
  join.init = 3;
  CHECK(!Parse(join, 1).ok());
  join.init = 0;
  join.outer = 2;
  CHECK(!Parse(join, 1).ok());
  join.outer = 0;
  join.zero = 1;
  CHECK(!Parse(join, 1).ok());
  join.zero = 0;
  join.zero2 = 1;
  CHECK(!Parse(join, 1).ok());
  join.zero2 = 0;
  for (uint32_t tensors : {0u, local::kTensorsMax + 1, 0xffffffffu}) {
    join.tensors = tensors;
    CHECK(!Parse(join, 1).ok());
  }
}

TEST_CASE("versions") {
  CHECK(*ChooseVersion(1, 1) == 1);
  CHECK(*ChooseVersion(1, 9) == local::kVersionMax);
  CHECK(!ChooseVersion(local::kVersionMax + 1, 9).ok());
}

}  // namespace
}  // namespace causeway::trainers
