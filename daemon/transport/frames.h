// Between protobuf messages, bytes and gRPC's buffers. Poller thread or any other; no state.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_FRAMES_H_
#define CAUSEWAY_DAEMON_TRANSPORT_FRAMES_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/transport/lane_frame.h"

namespace causeway::wan::v1 {
class ControlFrame;
class RunMessage;
}  // namespace causeway::wan::v1

namespace causeway::transport {

grpc::ByteBuffer ToByteBuffer(std::string bytes);
grpc::ByteBuffer ToByteBuffer(std::string head, std::string rest);
// Header and payload as two slices; the payload is referenced, not copied.
grpc::ByteBuffer ToByteBuffer(std::string head, const memory::SharedBuffer& payload);

grpc::ByteBuffer EncodeControl(const wan::v1::ControlFrame& frame);
// A ControlFrame that carries `message`, which is not copied into one first.
std::string EncodeRunMessage(const wan::v1::RunMessage& message);
// INVALID_ARGUMENT: too large or not a ControlFrame.
absl::StatusOr<wan::v1::ControlFrame> DecodeControl(const grpc::ByteBuffer& frame);

// A received lane frame: its bytes where gRPC has them, and what its head says.
class ReceivedLaneFrame {
 public:
  static absl::StatusOr<ReceivedLaneFrame> Read(const grpc::ByteBuffer& buffer);

  const LaneFrame& frame() const { return frame_; }
  size_t bytes() const { return bytes_; }
  // Copies a chunk's payload; `to` has exactly its size.
  void CopyPayload(const ChunkFrame& chunk, absl::Span<std::byte> to) const;

 private:
  std::vector<grpc::Slice> slices_;
  size_t bytes_ = 0;
  LaneFrame frame_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_FRAMES_H_
