// Replays the worked examples of proto/WIRE.md, part 1: the document, our code and protobuf say the
// same bytes.
#include <google/protobuf/descriptor.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "daemon/transport/lane_frame.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/tunnel_frame.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

// The hexadecimal blocks that begin with ```wan NAME.
std::map<std::string, std::string> ReadExamples() {
  std::ifstream file(CAUSEWAY_WIRE_DOCUMENT);
  std::map<std::string, std::string> examples;
  std::string line;
  std::string* open = nullptr;
  while (std::getline(file, line)) {
    if (line.rfind("```wan ", 0) == 0) {
      open = &examples[line.substr(7)];
    } else if (line.rfind("```", 0) == 0) {
      open = nullptr;
    } else if (open != nullptr) {
      std::istringstream bytes(line);
      std::string byte;
      while (bytes >> byte) open->push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
    }
  }
  return examples;
}

wan::v1::ControlFrame Control(const std::string& bytes) {
  wan::v1::ControlFrame frame;
  REQUIRE(frame.ParseFromString(bytes));
  CHECK(frame.SerializeAsString() == bytes);
  return frame;
}

LaneFrame Lane(const std::string& bytes) {
  auto parsed =
      ParseLaneFrame({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, bytes.size());
  INFO(parsed.status());
  REQUIRE(parsed.ok());
  return *parsed;
}

constexpr uint64_t kLink = 0x0102030405060708;

// The protobuf library writes a line to standard error for each `string` that is not UTF-8, as
// often as a peer likes.
TEST_CASE("no field between gateways is of a type that the library itself complains about") {
  const google::protobuf::FileDescriptor& file = *wan::v1::ControlFrame::descriptor()->file();
  REQUIRE(file.message_type_count() > 0);
  for (int m = 0; m < file.message_type_count(); ++m) {
    const google::protobuf::Descriptor& message = *file.message_type(m);
    CHECK(message.nested_type_count() == 0);
    for (int f = 0; f < message.field_count(); ++f) {
      INFO(message.field(f)->full_name());
      CHECK(message.field(f)->type() != google::protobuf::FieldDescriptor::TYPE_STRING);
    }
  }
}

TEST_CASE("the document's control frames are what protobuf writes") {
  std::map<std::string, std::string> examples = ReadExamples();
  REQUIRE(examples.size() == 14);  // Plan and LinkReport: tests/unit/run

  const wan::v1::Hello hello = Control(examples.at("Hello")).hello();
  CHECK(hello.version_min() == kVersionMin);
  CHECK(hello.version_max() == kVersionMax);
  CHECK(hello.cluster() == "paris");
  CHECK(hello.incarnation() == 0x1122);
  CHECK(hello.software() == "causewayd 0.1.0");
  CHECK(hello.lanes() == 4);
  CHECK(hello.link() == kLink);

  const wan::v1::RunMessage run = Control(examples.at("RunMessage")).run();
  CHECK(run.run() == "demo");
  CHECK(run.epoch().counter() == 3);
  CHECK(run.epoch().candidate() == "paris");
  CHECK(run.from_incarnation() == 0x1122);
  CHECK(run.to_incarnation() == 0x3344);
  CHECK(run.ready().fragment() == 2);
  CHECK(run.ready().round() == 41);

  const wan::v1::Credit credit = Control(examples.at("Credit")).credit();
  CHECK(credit.run() == "demo");
  CHECK(credit.granted_bytes() == 8 << 20);
  const wan::v1::Heartbeat heartbeat = Control(examples.at("Heartbeat")).heartbeat();
  CHECK(heartbeat.sequence() == 7);
  CHECK(heartbeat.echo() == 6);
  CHECK(heartbeat.echo_delay_us() == 1500);
  CHECK(Control(examples.at("LaneWish")).lanes().wanted() == 6);
  CHECK(Control(examples.at("Goodbye")).goodbye().reason() == "this gateway stops");
}

TEST_CASE("the document's lane frames are what our code writes and reads") {
  std::map<std::string, std::string> examples = ReadExamples();
  const std::string hello = examples.at("LaneHello");
  CHECK(EncodeLaneHello({"paris", 0x1122, kLink, 3}) == hello);
  CHECK(std::get<LaneHelloFrame>(Lane(hello)).lane == 3);

  const std::string ack = examples.at("ChunkAck");
  CHECK(EncodeChunkAck(300) == ack);
  CHECK(std::get<ChunkAckFrame>(Lane(ack)).sequence == 300);

  ChunkHeader header;
  header.run = "demo";
  header.epoch = {3, "paris"};
  header.fragment = 2;
  header.round = 41;
  header.incarnation = 0x1122;
  header.kind = ChunkKind::kContribution;
  header.index = 77;
  const std::string payload = "payload!";
  // Protobuf orders by number, as the document does.
  const std::string chunk = examples.at("Chunk");
  CHECK(EncodeChunkHead(301, 1200, header, payload.size()) + payload == chunk);
  const auto parsed = std::get<ChunkFrame>(Lane(chunk));
  CHECK(parsed.header == header);
  CHECK(chunk.substr(parsed.payload_offset) == payload);
  wan::v1::LaneFrame message;
  REQUIRE(message.ParseFromString(chunk));
  CHECK(message.SerializeAsString() == chunk);
}

std::string Bytes(const grpc::ByteBuffer& frame) {
  grpc::Slice slice;
  REQUIRE(frame.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

TEST_CASE("the document's tunnel frames are what our code writes and reads") {
  std::map<std::string, std::string> examples = ReadExamples();
  const auto offer = Control(examples.at("TunnelOffer")).tunnel();
  CHECK(offer.tunnel() == kLink);
  CHECK(offer.from() == "paris");
  const std::string hello = examples.at("TunnelHello");
  CHECK(Bytes(EncodeTunnelHello({"paris", "tokyo", 0})) == hello);
  CHECK(DecodeTunnelHello(Buffer(hello))->to == "tokyo");
  const std::string data = examples.at("TunnelData");
  CHECK(Bytes(EncodeTunnelData("sealed")) == data);
  CHECK(DecodeTunnelData(Buffer(data))->skip == 2);
}

TEST_CASE("hostile tunnel frames are refused") {
  CHECK_FALSE(DecodeTunnelHello(Buffer("")).ok());
  CHECK_FALSE(DecodeTunnelHello(Buffer("\xff\xff")).ok());
  CHECK_FALSE(DecodeTunnelHello(Buffer(std::string(10'000, 'x'))).ok());
  CHECK_FALSE(DecodeTunnelHello(EncodeTunnelHello({"paris", "", 0})).ok());
  CHECK_FALSE(DecodeTunnelHello(EncodeTunnelHello({"paris", "tokyo", 7})).ok());
  CHECK_FALSE(DecodeTunnelHello(EncodeTunnelHello({"paris", std::string(200, 't'), 0})).ok());
  CHECK_FALSE(DecodeTunnelHello(EncodeTunnelData("data")).ok());
  const std::string data = Bytes(EncodeTunnelData(std::string(300, 'd')));
  CHECK(DecodeTunnelData(Buffer(data)).ok());
  CHECK(DecodeTunnelData(EncodeTunnelData("")).ok());
  for (size_t cut : {size_t{1}, size_t{2}, size_t{3}, data.size() - 1}) {
    CHECK_FALSE(DecodeTunnelData(Buffer(data.substr(0, cut))).ok());
  }
  CHECK_FALSE(DecodeTunnelData(Buffer(data + "x")).ok());
  CHECK_FALSE(DecodeTunnelData(Buffer("")).ok());
  CHECK_FALSE(DecodeTunnelData(Buffer(std::string(12, '\xff'))).ok());
  CHECK_FALSE(DecodeTunnelData(Buffer("\x12" + std::string(12, '\xff'))).ok());
}

TEST_CASE("the document's limits are the code's") {
  CHECK(kControlFrameBytesMax == 1 << 20);
  CHECK(kChunkBytesMax == 2 << 20);
  CHECK(kLaneHeaderBytesMax == 1024);
  CHECK(kNameBytesMax == 128);
  CHECK(kTextBytesMax == 512);
  CHECK(kLanesPerPeerMax == 32);
  CHECK(kCreditRunsMax == 1024);
  CHECK(kChunksInFlightMax == 65536);
  CHECK(kWindowBytesMin == 2 << 20);
  CHECK(kWindowBytesMax == uint64_t{64} << 30);
  CHECK(kChunkCreditBytesMin == 1024);
  CHECK(kPendingStreamsMax == 256);
  CHECK(kStreamsPerConnectionMax == 8);
  CHECK(kTunnelsPerPairMax == 68);
  CHECK(kTunnelsTotalMax == 256);
}

}  // namespace
}  // namespace causeway::transport
