// Lane frames: the bytes are those of the generated protobuf code, and everything malformed is
// refused by name.
#include "daemon/transport/lane_frame.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <string>

#include "daemon/transport/limits.h"
#include "daemon/transport/wire_fields.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::StatusOr<LaneFrame> Parse(const std::string& frame) {
  const std::string head = frame.substr(0, std::min(frame.size(), kLaneHeaderBytesMax));
  return ParseLaneFrame(Bytes(head), frame.size());
}

ChunkHeader SomeHeader() {
  ChunkHeader header;
  header.run = "demo";
  header.epoch = {3, "paris"};
  header.lineage = 1;
  header.fragment = 2;
  header.round = 41;
  header.attempt = 1;
  header.incarnation = 0xfedcba9876543210;
  header.kind = ChunkKind::kResult;
  header.index = 77;
  return header;
}

void CheckRefused(const std::string& frame, const std::string& word) {
  absl::StatusOr<LaneFrame> parsed = Parse(frame);
  INFO("expected a refusal that says: " << word);
  REQUIRE_FALSE(parsed.ok());
  CHECK(absl::IsInvalidArgument(parsed.status()));
  INFO(parsed.status().message());
  CHECK(std::string(parsed.status().message()).find(word) != std::string::npos);
}

TEST_CASE("a chunk's bytes are legal protobuf and come back the same") {
  std::mt19937_64 random(20240611);
  for (size_t payload_bytes : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{900},
                               size_t{70000}, kChunkBytesMax}) {
    CAPTURE(payload_bytes);
    std::string payload(payload_bytes, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    ChunkHeader header = SomeHeader();
    header.round = payload_bytes == 1 ? -1 : header.round;
    const std::string frame = EncodeChunkHead(9, 1234567, header, payload_bytes) + payload;

    wan::v1::LaneFrame message;
    REQUIRE(message.ParseFromString(frame));
    CHECK(message.SerializeAsString().size() == frame.size());
    const wan::v1::Chunk& chunk = message.chunk();
    CHECK(chunk.sequence() == 9);
    CHECK(chunk.number() == 1234567);
    CHECK(chunk.run() == header.run);
    CHECK(chunk.epoch().counter() == header.epoch.counter);
    CHECK(chunk.epoch().candidate() == header.epoch.candidate);
    CHECK(chunk.lineage() == header.lineage);
    CHECK(chunk.fragment() == header.fragment);
    CHECK(chunk.round() == header.round);
    CHECK(chunk.attempt() == header.attempt);
    CHECK(chunk.incarnation() == header.incarnation);
    CHECK(chunk.kind() == static_cast<uint32_t>(header.kind));
    CHECK(chunk.index() == header.index);
    CHECK(chunk.payload() == payload);

    // What protobuf writes is read just as well.
    for (const std::string& bytes : {frame, message.SerializeAsString()}) {
      auto parsed = Parse(bytes);
      REQUIRE(parsed.ok());
      const auto& got = std::get<ChunkFrame>(*parsed);
      CHECK(got.sequence == 9);
      CHECK(got.number == 1234567);
      CHECK(got.header == header);
      CHECK(got.payload_bytes == payload_bytes);
      CHECK(bytes.substr(got.payload_offset) == payload);
    }
  }
}

TEST_CASE("hello and acknowledgement agree with protobuf") {
  const std::string hello = EncodeLaneHello({"tokyo", 11, 22, 3});
  wan::v1::LaneFrame message;
  REQUIRE(message.ParseFromString(hello));
  CHECK(message.SerializeAsString() == hello);
  CHECK(message.hello().cluster() == "tokyo");
  auto parsed = Parse(hello);
  REQUIRE(parsed.ok());
  const auto& got = std::get<LaneHelloFrame>(*parsed);
  CHECK(got.cluster == "tokyo");
  CHECK(got.incarnation == 11);
  CHECK(got.link == 22);
  CHECK(got.lane == 3);

  const std::string ack = EncodeChunkAck(1u << 31);
  REQUIRE(message.ParseFromString(ack));
  CHECK(message.SerializeAsString() == ack);
  CHECK(message.ack().sequence() == 1u << 31);
  CHECK(std::get<ChunkAckFrame>(*Parse(ack)).sequence == 1u << 31);
}

TEST_CASE("unknown fields ahead of the payload are skipped") {
  wan::v1::LaneFrame message;
  message.mutable_chunk()->set_sequence(1);
  message.mutable_chunk()->set_number(1);
  message.mutable_chunk()->set_run("r");
  message.mutable_chunk()->set_kind(1);
  std::string body = message.chunk().SerializeAsString();
  AppendVarint(body, 14 << 3 | 0);
  AppendVarint(body, 300);
  AppendBytesHead(body, 13, 4);
  body += "abcd";
  AppendVarint(body, 12 << 3 | 1);
  body += "12345678";
  AppendBytesHead(body, 15, 3);
  body += "xyz";
  std::string frame;
  AppendBytesHead(frame, 3, body.size());
  frame += body;
  auto parsed = Parse(frame);
  REQUIRE(parsed.ok());
  CHECK(frame.substr(std::get<ChunkFrame>(*parsed).payload_offset) == "xyz");
}

TEST_CASE("forged and malformed frames are refused by name") {
  const std::string good = EncodeChunkHead(1, 1, SomeHeader(), 3) + "abc";
  REQUIRE(Parse(good).ok());

  CheckRefused("", "ends inside");
  CheckRefused(good + "d", "follow");                       // longer than it says
  CheckRefused(good.substr(0, good.size() - 1), "follow");  // shorter than it says
  CheckRefused(std::string("\x1a\xff\xff\xff\xff\x7f", 6), "follow");
  CheckRefused(std::string(11, '\xff'), "64 bits");
  CheckRefused(std::string("\x22\x00", 2), "unknown kind 4");
  CheckRefused(std::string("\x18\x00", 2), "wire type");

  std::string body;
  auto chunk_with = [&](const std::string& extra) {
    std::string all = EncodeChunkHead(1, 1, SomeHeader(), 0);
    all = all.substr(2) + extra;  // a frame this small has a two-byte prefix
    std::string frame;
    AppendBytesHead(frame, 3, all.size());
    return frame + all;
  };
  REQUIRE(Parse(chunk_with("")).ok());
  CheckRefused(chunk_with(std::string("\x08\x01", 2)), "field 1 twice");
  CheckRefused(chunk_with(std::string("\x7a\x05xyz", 5)), "payload of 5 bytes where 3 follow");
  CheckRefused(chunk_with(std::string("\x7a\x01xyz", 5)), "payload of 1 bytes where 3 follow");
  CheckRefused(chunk_with(std::string("\x78\x01", 2)), "wire type");    // payload as a number
  CheckRefused(chunk_with(std::string("\x73\x74", 2)), "wire type 3");  // groups

  auto with = [](auto change) {
    ChunkHeader header = SomeHeader();
    change(header);
    return EncodeChunkHead(1, 1, header, 0);
  };
  CheckRefused(with([](ChunkHeader& h) { h.run = std::string(kNameBytesMax + 1, 'r'); }),
               "name of 129");
  CheckRefused(
      with([](ChunkHeader& h) { h.epoch.candidate = std::string(kNameBytesMax + 1, 'r'); }),
      "name of 129");
  CheckRefused(with([](ChunkHeader& h) { h.run = "two\nlines"; }), "printable ASCII");
  CheckRefused(with([](ChunkHeader& h) { h.epoch.candidate = "\xc3\xa9"; }), "printable ASCII");
  CheckRefused(chunk_with(std::string("\x70\x81\x00", 3)), "longer than needed");
  CheckRefused(with([](ChunkHeader& h) { h.run.clear(); }), "without a run");
  CheckRefused(with([](ChunkHeader& h) { h.kind = static_cast<ChunkKind>(9); }), "chunk kind 9");
  CheckRefused(with([](ChunkHeader& h) { h.kind = static_cast<ChunkKind>(0); }), "without a kind");
  CheckRefused(EncodeChunkHead(0, 1, SomeHeader(), 0), "without sequence");
  CheckRefused(EncodeChunkHead(1, 0, SomeHeader(), 0), "without sequence or number");

  // Sizes beyond the limits are refused from the head alone: no such memory exists in this test.
  const std::string huge = EncodeChunkHead(1, 1, SomeHeader(), kChunkBytesMax + 1);
  absl::StatusOr<LaneFrame> parsed = ParseLaneFrame(Bytes(huge), huge.size() + kChunkBytesMax + 1);
  REQUIRE_FALSE(parsed.ok());
  parsed = ParseLaneFrame(Bytes(good), std::numeric_limits<size_t>::max());
  REQUIRE_FALSE(parsed.ok());

  // A head that never reaches the payload.
  std::string padded;
  AppendBytesHead(padded, 14, 1100);
  padded += std::string(1100, 'p');
  std::string frame;
  AppendBytesHead(frame, 3, padded.size());
  CheckRefused(frame + padded, "longer than the frame's head");
}

TEST_CASE("mutated frames never read out of bounds and never claim more than the frame holds") {
  const uint64_t seed = 7;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string good = EncodeChunkHead(5, 6, SomeHeader(), 40) + std::string(40, 'p');
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string frame = good;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int c = 0; c < changes; ++c) frame[random() % frame.size()] = static_cast<char>(random());
    if (random() % 4 == 0) frame.resize(random() % (frame.size() + 1));
    auto parsed = Parse(frame);
    if (!parsed.ok()) continue;
    ++accepted;
    if (auto* chunk = std::get_if<ChunkFrame>(&*parsed)) {
      REQUIRE(chunk->payload_offset + chunk->payload_bytes == frame.size());
      REQUIRE(chunk->header.run.size() <= kNameBytesMax);
    }
  }
  CHECK(accepted > 0);
}

}  // namespace
}  // namespace causeway::transport
