// Lane frames from a peer. Whatever our parser accepts, protobuf's accepts, too, with the same
// meaning; a chunk's payload lies inside the frame; and what was read is written and read again to
// the same.
#include "daemon/transport/lane_frame.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "daemon/transport/limits.h"
#include "proto/wan.pb.h"

namespace {

using namespace causeway::transport;

void Require(bool condition) {
  if (!condition) std::abort();
}

absl::StatusOr<LaneFrame> Parse(const std::string& frame) {
  // An exact copy of the head: a read beyond it is seen.
  const std::string head = frame.substr(0, kLaneHeaderBytesMax);
  return ParseLaneFrame({reinterpret_cast<const uint8_t*>(head.data()), head.size()}, frame.size());
}

void Check(const std::string& frame, const ChunkFrame& chunk,
           const causeway::wan::v1::LaneFrame& message) {
  Require(chunk.payload_offset + chunk.payload_bytes == frame.size());
  Require(message.has_chunk());
  const causeway::wan::v1::Chunk& same = message.chunk();
  Require(same.sequence() == chunk.sequence && same.number() == chunk.number);
  Require(same.run() == chunk.header.run && same.lineage() == chunk.header.lineage);
  Require(same.epoch().counter() == chunk.header.epoch.counter);
  Require(same.epoch().candidate() == chunk.header.epoch.candidate);
  Require(same.fragment() == chunk.header.fragment && same.round() == chunk.header.round);
  Require(same.attempt() == chunk.header.attempt && same.incarnation() == chunk.header.incarnation);
  Require(same.kind() == static_cast<uint32_t>(chunk.header.kind) &&
          same.index() == chunk.header.index);
  Require(same.payload() == frame.substr(chunk.payload_offset));

  const std::string again =
      EncodeChunkHead(chunk.sequence, chunk.number, chunk.header, chunk.payload_bytes) +
      same.payload();
  if (again.size() > kLaneFrameBytesMax) return;
  const auto parsed = Parse(again);
  Require(parsed.ok());
  Require(std::get<ChunkFrame>(*parsed).header == chunk.header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string frame(reinterpret_cast<const char*>(data), size);
  const auto parsed = Parse(frame);
  if (!parsed.ok()) {
    Require(!parsed.status().message().empty());
    return 0;
  }
  causeway::wan::v1::LaneFrame message;
  Require(message.ParseFromString(frame));
  if (const auto* chunk = std::get_if<ChunkFrame>(&*parsed)) {
    Check(frame, *chunk, message);
  } else if (const auto* ack = std::get_if<ChunkAckFrame>(&*parsed)) {
    Require(message.has_ack() && message.ack().sequence() == ack->sequence);
    Require(std::get<ChunkAckFrame>(*Parse(EncodeChunkAck(ack->sequence))).sequence ==
            ack->sequence);
  } else {
    const auto& hello = std::get<LaneHelloFrame>(*parsed);
    Require(message.has_hello() && message.hello().cluster() == hello.cluster);
    Require(message.hello().incarnation() == hello.incarnation &&
            message.hello().link() == hello.link);
    Require(message.hello().lane() == hello.lane);
  }
  return 0;
}
