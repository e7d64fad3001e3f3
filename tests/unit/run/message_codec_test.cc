// Every engine message survives the wire; hostile ones are refused with the field named.
#include "daemon/run/message_codec.h"

#include <catch2/catch.hpp>

#include "tests/unit/run/messages.h"

namespace causeway::run {
namespace {

const Roster kRoster({"tokyo", "paris", "lima"});  // sorted: lima 0, paris 1, tokyo 2

engine::Envelope Wrap(engine::Message message) {
  engine::Envelope out;
  out.header = {{4, 2}, 3, 111, 222, 77};
  out.message = std::move(message);
  return out;
}

absl::Status Refusal(const wan::v1::RunMessage& message) {
  return DecodeEnvelope(kRoster, message).status();
}

TEST_CASE("every message survives the wire unchanged") {
  for (const engine::Message& message : testing::EveryMessage()) {
    const engine::Envelope envelope = Wrap(message);
    const wan::v1::RunMessage wire = EncodeEnvelope("demo", kRoster, envelope);
    wan::v1::RunMessage parsed;
    REQUIRE(parsed.ParseFromString(wire.SerializeAsString()));
    const auto back = DecodeEnvelope(kRoster, parsed);
    INFO(engine::MessageName(message) << " " << back.status().message());
    REQUIRE(back.ok());
    CHECK(back->header.founding == envelope.header.founding);
    CHECK(back->message.index() == message.index());
    CHECK(engine::Describe(*back) == engine::Describe(envelope));
    // Field by field: encoding what was decoded gives the same bytes.
    CHECK(EncodeEnvelope("demo", kRoster, *back).SerializeAsString() == wire.SerializeAsString());
  }
}

TEST_CASE("the durable words survive, also the blank ones") {
  engine::Durable durable;
  CHECK(DecodeDurable(kRoster, EncodeDurable(kRoster, durable))->Blank());
  durable.promised = {9, 1};
  durable.accepted = testing::SomeRecord();
  durable.founding = true;
  const auto back = DecodeDurable(kRoster, EncodeDurable(kRoster, durable));
  REQUIRE(back.ok());
  CHECK(back->promised == durable.promised);
  CHECK(back->accepted == durable.accepted);
  CHECK(back->founding);
}

TEST_CASE("hostile messages are refused by name") {
  wan::v1::RunMessage good = EncodeEnvelope("demo", kRoster, Wrap(engine::Ready{1, 2}));
  SECTION("an unknown cluster in the epoch") {
    good.mutable_epoch()->set_candidate("atlantis");
    CHECK(Refusal(good).message().find("atlantis") != absl::string_view::npos);
  }
  SECTION("a fragment out of range") {
    good.mutable_ready()->set_fragment(1 << 30);
    CHECK(Refusal(good).message().find("fragment") != absl::string_view::npos);
  }
  SECTION("a negative round") {
    good.mutable_ready()->set_round(-1);
    CHECK(Refusal(good).message().find("round") != absl::string_view::npos);
  }
  SECTION("no body, or one that is not the engine's") {
    good.clear_ready();
    CHECK_FALSE(Refusal(good).ok());
    good.mutable_schema_detail();
    CHECK_FALSE(Refusal(good).ok());
  }
  SECTION("a hash of another size") {
    wan::v1::RunMessage join = EncodeEnvelope("demo", kRoster, Wrap(engine::Join{}));
    join.mutable_join()->set_schema("short");
    CHECK(Refusal(join).message().find("schema") != absl::string_view::npos);
  }
  SECTION("contributors out of order, twice, or too many") {
    engine::Cut cut;
    cut.contributors = {{2, 1, {}, 1, 0}, {0, 1, {}, 1, 0}};
    CHECK_FALSE(Refusal(EncodeEnvelope("demo", kRoster, Wrap(cut))).ok());
    cut.contributors = {{1, 1, {}, 1, 0}, {1, 1, {}, 1, 0}};
    CHECK_FALSE(Refusal(EncodeEnvelope("demo", kRoster, Wrap(cut))).ok());
    cut.contributors.assign(65, {1, 1, {}, 1, 0});
    CHECK(Refusal(EncodeEnvelope("demo", kRoster, Wrap(cut))).message().find("65") !=
          absl::string_view::npos);
  }
  SECTION("a record without epoch or with a member without incarnation") {
    engine::Install install{testing::SomeRecord()};
    wan::v1::RunMessage wire = EncodeEnvelope("demo", kRoster, Wrap(install));
    wire.mutable_install()->mutable_members(0)->set_incarnation(0);
    CHECK_FALSE(Refusal(wire).ok());
    wire = EncodeEnvelope("demo", kRoster, Wrap(install));
    wire.mutable_install()->clear_epoch();
    CHECK_FALSE(Refusal(wire).ok());
  }
  SECTION("more fragments than a run may have") {
    wan::v1::RunMessage wire = EncodeEnvelope("demo", kRoster, Wrap(engine::Heartbeat{}));
    for (uint32_t i = 0; i <= engine::kFragmentsMax; ++i) wire.mutable_heartbeat()->add_fragments();
    CHECK(Refusal(wire).message().find("fragments") != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace causeway::run
