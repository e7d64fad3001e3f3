// Lane frames as bytes: wan.proto's LaneFrame, read and written by hand so that a chunk's payload
// is never copied into a protobuf field. The bytes are legal protobuf (tests compare with the
// generated code).
//
// Pure functions; any thread. Input is hostile: nothing is allocated beyond names of kNameBytesMax.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LANE_FRAME_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LANE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/transport/chunk.h"

namespace causeway::transport {

struct LaneHelloFrame {
  std::string cluster;
  uint64_t incarnation = 0;
  uint64_t link = 0;
  uint32_t lane = 0;
};

struct ChunkAckFrame {
  uint64_t sequence = 0;
};

struct ChunkFrame {
  uint64_t sequence = 0;  // per lane
  uint64_t number = 0;    // per link
  ChunkHeader header;
  size_t payload_offset = 0;  // in the frame; the payload reaches to its end
  size_t payload_bytes = 0;
};

using LaneFrame = std::variant<LaneHelloFrame, ChunkAckFrame, ChunkFrame>;

// Reads one frame of `frame_bytes` bytes, of which `head` holds the first
// min(frame_bytes, kLaneHeaderBytesMax). INVALID_ARGUMENT names what is wrong.
absl::StatusOr<LaneFrame> ParseLaneFrame(absl::Span<const uint8_t> head, size_t frame_bytes);

// The frame up to where the payload's bytes follow.
std::string EncodeChunkHead(uint64_t sequence, uint64_t number, const ChunkHeader& header,
                            size_t payload_bytes);
std::string EncodeChunkAck(uint64_t sequence);
std::string EncodeLaneHello(const LaneHelloFrame& hello);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LANE_FRAME_H_
