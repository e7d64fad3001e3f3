// Stricter than protobuf on purpose: each known field once, canonical wire types, values in range,
// the payload last and exactly to the end. Unknown fields ahead of the payload are skipped, so a
// later minor version may add some. Rejected: parsing with protobuf from a copied prefix, which
// would need the payload field cut off by hand anyway and merges repeated submessages silently.
#include "daemon/transport/lane_frame.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/wire_fields.h"

namespace causeway::transport {
namespace {

enum LaneFrameField : uint32_t { kFrameHello = 1, kFrameAck = 2, kFrameChunk = 3 };
enum ChunkField : uint32_t {
  kChunkSequence = 1,
  kChunkRun = 2,
  kChunkEpoch = 3,
  kChunkFragment = 4,
  kChunkRound = 5,
  kChunkAttempt = 6,
  kChunkIncarnation = 7,
  kChunkKind = 8,
  kChunkIndex = 9,
  kChunkLineage = 10,
  kChunkNumber = 11,
  kChunkPayload = 15,
};

absl::StatusOr<LaneHelloFrame> ParseHello(absl::Span<const uint8_t> body) {
  LaneHelloFrame hello;
  FieldReader reader(body);
  OnceReader once(reader);
  while (!reader.done()) {
    absl::Status read = reader.ReadTag();
    if (!read.ok()) return read;
    switch (reader.field()) {
      case 1:
        read = once.Name(hello.cluster);
        break;
      case 2:
        read = once.Number(hello.incarnation);
        break;
      case 3:
        read = once.Number(hello.link);
        break;
      case 4:
        read = once.Number32(hello.lane);
        break;
      default:
        read = reader.Skip();
    }
    if (!read.ok()) return read;
  }
  return hello;
}

absl::StatusOr<ChunkAckFrame> ParseAck(absl::Span<const uint8_t> body) {
  ChunkAckFrame ack;
  FieldReader reader(body);
  OnceReader once(reader);
  while (!reader.done()) {
    absl::Status read = reader.ReadTag();
    if (!read.ok()) return read;
    read = reader.field() == 1 ? once.Number(ack.sequence) : reader.Skip();
    if (!read.ok()) return read;
  }
  return ack;
}

absl::Status ParseEpoch(absl::Span<const uint8_t> body, EpochName& epoch) {
  FieldReader reader(body);
  OnceReader once(reader);
  while (!reader.done()) {
    absl::Status read = reader.ReadTag();
    if (!read.ok()) return read;
    switch (reader.field()) {
      case 1:
        read = once.Number(epoch.counter);
        break;
      case 2:
        read = once.Name(epoch.candidate);
        break;
      default:
        read = reader.Skip();
    }
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

absl::Status ParseKind(OnceReader& once, ChunkKind& kind) {
  uint32_t value = 0;
  if (absl::Status read = once.Number32(value); !read.ok()) return read;
  if (value < static_cast<uint32_t>(ChunkKind::kContribution) ||
      value > static_cast<uint32_t>(ChunkKind::kState)) {
    return BadFrame(absl::StrCat("chunk kind ", value));
  }
  kind = static_cast<ChunkKind>(value);
  return absl::OkStatus();
}

// One field of a chunk other than its payload.
absl::Status ParseChunkField(FieldReader& reader, OnceReader& once, ChunkFrame& chunk) {
  ChunkHeader& header = chunk.header;
  uint64_t wide = 0;
  absl::Span<const uint8_t> span;
  absl::Status read;
  switch (reader.field()) {
    case kChunkSequence:
      return once.Number(chunk.sequence);
    case kChunkNumber:
      return once.Number(chunk.number);
    case kChunkRun:
      return once.Name(header.run);
    case kChunkEpoch:
      read = once.Message(span);
      return read.ok() ? ParseEpoch(span, header.epoch) : read;
    case kChunkFragment:
      return once.Number32(header.fragment);
    case kChunkRound:
      read = once.Number(wide);
      header.round = static_cast<int64_t>(wide);
      return read;
    case kChunkAttempt:
      return once.Number32(header.attempt);
    case kChunkIncarnation:
      return once.Number(header.incarnation);
    case kChunkKind:
      return ParseKind(once, header.kind);
    case kChunkIndex:
      return once.Number32(header.index);
    case kChunkLineage:
      return once.Number(header.lineage);
    default:
      return reader.Skip();
  }
}

// `body` begins `offset` bytes into the frame and may end before it does.
absl::StatusOr<ChunkFrame> ParseChunk(absl::Span<const uint8_t> body, size_t offset,
                                      size_t frame_bytes) {
  ChunkFrame chunk;
  chunk.header.kind = ChunkKind{};
  chunk.payload_offset = frame_bytes;
  bool payload_seen = false;
  FieldReader reader(body);
  OnceReader once(reader);
  while (!reader.done() && !payload_seen) {
    absl::Status read = reader.ReadTag();
    if (!read.ok()) return read;
    if (reader.field() == kChunkPayload) {
      uint64_t length = 0;
      if (read = once.First(kWireBytes); !read.ok()) return read;
      if (read = reader.ReadVarint(length); !read.ok()) return read;
      chunk.payload_offset = offset + reader.position();
      const size_t rest = frame_bytes - chunk.payload_offset;
      if (length != rest) {
        return BadFrame(absl::StrCat("payload of ", length, " bytes where ", rest, " follow"));
      }
      chunk.payload_bytes = rest;
      payload_seen = true;
    } else if (read = ParseChunkField(reader, once, chunk); !read.ok()) {
      return read;
    }
  }
  if (!payload_seen && offset + body.size() != frame_bytes)
    return BadFrame("head longer than its limit");
  if (chunk.payload_bytes > kChunkBytesMax) {
    return BadFrame(
        absl::StrCat("payload of ", chunk.payload_bytes, " bytes, limit ", kChunkBytesMax));
  }
  if (chunk.sequence == 0 || chunk.number == 0) return BadFrame("chunk without sequence or number");
  if (chunk.header.run.empty()) return BadFrame("chunk without a run");
  if (chunk.header.kind == ChunkKind{}) return BadFrame("chunk without a kind");
  return chunk;
}

std::string Wrap(uint32_t field, const std::string& body) {
  std::string frame;
  AppendBytesHead(frame, field, body.size());
  return frame + body;
}

}  // namespace

absl::StatusOr<LaneFrame> ParseLaneFrame(absl::Span<const uint8_t> head, size_t frame_bytes) {
  if (frame_bytes > kLaneFrameBytesMax) {
    return BadFrame(absl::StrCat(frame_bytes, " bytes, limit ", kLaneFrameBytesMax));
  }
  if (head.size() > frame_bytes) return BadFrame("head longer than the frame");
  FieldReader reader(head);
  if (absl::Status read = reader.ReadTag(); !read.ok()) return read;
  if (reader.type() != kWireBytes) return BadFrame(absl::StrCat("wire type ", reader.type()));
  uint64_t length = 0;
  if (absl::Status read = reader.ReadVarint(length); !read.ok()) return read;
  const size_t offset = reader.position();
  if (length != frame_bytes - offset) {
    return BadFrame(
        absl::StrCat("body of ", length, " bytes where ", frame_bytes - offset, " follow"));
  }
  const absl::Span<const uint8_t> body = head.subspan(offset);
  if (reader.field() != kFrameChunk && body.size() != length)
    return BadFrame("too long for its kind");
  switch (reader.field()) {
    case kFrameHello:
      return ParseHello(body);
    case kFrameAck:
      return ParseAck(body);
    case kFrameChunk:
      return ParseChunk(body, offset, frame_bytes);
    default:
      return BadFrame(absl::StrCat("unknown kind ", reader.field()));
  }
}

std::string EncodeChunkHead(uint64_t sequence, uint64_t number, const ChunkHeader& header,
                            size_t payload_bytes) {
  std::string epoch;
  AppendNumber(epoch, 1, header.epoch.counter);
  AppendText(epoch, 2, header.epoch.candidate);

  std::string body;
  AppendNumber(body, kChunkSequence, sequence);
  AppendText(body, kChunkRun, header.run);
  AppendText(body, kChunkEpoch, epoch);
  AppendNumber(body, kChunkFragment, header.fragment);
  AppendNumber(body, kChunkRound, static_cast<uint64_t>(header.round));
  AppendNumber(body, kChunkAttempt, header.attempt);
  AppendNumber(body, kChunkIncarnation, header.incarnation);
  AppendNumber(body, kChunkKind, static_cast<uint64_t>(header.kind));
  AppendNumber(body, kChunkIndex, header.index);
  AppendNumber(body, kChunkLineage, header.lineage);
  AppendNumber(body, kChunkNumber, number);
  if (payload_bytes > 0) AppendBytesHead(body, kChunkPayload, payload_bytes);

  std::string frame;
  AppendBytesHead(frame, kFrameChunk, body.size() + payload_bytes);
  return frame + body;
}

std::string EncodeChunkAck(uint64_t sequence) {
  std::string body;
  AppendNumber(body, 1, sequence);
  return Wrap(kFrameAck, body);
}

std::string EncodeLaneHello(const LaneHelloFrame& hello) {
  std::string body;
  AppendText(body, 1, hello.cluster);
  AppendNumber(body, 2, hello.incarnation);
  AppendNumber(body, 3, hello.link);
  AppendNumber(body, 4, hello.lane);
  return Wrap(kFrameHello, body);
}

}  // namespace causeway::transport
