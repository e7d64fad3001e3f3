// Frames of a Tunnel stream (wan.proto's TunnelFrame). Pure functions; any thread. A relay passes
// data frames on as they are.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_FRAME_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_FRAME_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace causeway::transport {

struct TunnelHelloFrame {
  std::string cluster;
  std::string to;       // empty: answers an offer
  uint64_t tunnel = 0;  // of the offer
};

grpc::ByteBuffer EncodeTunnelHello(const TunnelHelloFrame& hello);
// INVALID_ARGUMENT: no TunnelHello, or one with too long a name, or with neither or both of `to`
// and `tunnel`.
absl::StatusOr<TunnelHelloFrame> DecodeTunnelHello(const grpc::ByteBuffer& frame);

grpc::ByteBuffer EncodeTunnelData(std::string bytes);

// The bytes of a data frame where gRPC has them; the first `skip` bytes are the frame's head.
struct TunnelData {
  std::vector<grpc::Slice> slices;
  size_t skip = 0;
};
// INVALID_ARGUMENT: not a frame that carries data to its end.
absl::StatusOr<TunnelData> DecodeTunnelData(const grpc::ByteBuffer& frame);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_FRAME_H_
