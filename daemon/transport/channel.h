// Channels and server settings: every gRPC argument that the transport depends on, in one place.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_
#define CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/transport/transport.h"

namespace grpc {
class Channel;
class ResourceQuota;
class ServerBuilder;
}  // namespace grpc

namespace causeway::transport {

inline constexpr char kControlMethod[] = "/causeway.wan.v1.Gateway/Control";
inline constexpr char kLaneMethod[] = "/causeway.wan.v1.Gateway/Lane";
inline constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
inline constexpr char kTunnelMethod[] = "/causeway.wan.v1.Gateway/Tunnel";

enum class Use { kControl, kBulk };

// A channel with a TCP connection of its own, which begins to connect at once. A new one for each
// attempt: names are resolved again and gRPC's back-off does not add to ours.
std::shared_ptr<grpc::Channel> MakeChannel(const PeerConfig& peer, Use use,
                                           absl::Duration peer_timeout,
                                           absl::Duration hello_timeout,
                                           const grpc::ResourceQuota& quota);

// Holds every channel until nobody else does and it is not connecting: gRPC 1.51 loses a
// connection, for good, whose channel goes between its handshake and the server's settings. Poller
// thread only.
class ChannelKeeper {
 public:
  std::shared_ptr<grpc::Channel> Keep(std::shared_ptr<grpc::Channel> channel);
  // Lets go of those that may go; how many of the unused ones may not, yet.
  int Sweep();

 private:
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // shared with the streams on them
};

void ConfigureServer(grpc::ServerBuilder& builder, absl::Duration peer_timeout,
                     absl::Duration hello_timeout, const grpc::ResourceQuota& quota);

// How much gRPC may hold in all: what the windows let peers send, and room for connections and
// small frames. Under pressure gRPC shrinks its own windows, so this is far above what well-behaved
// peers need.
uint64_t QuotaBytes(uint64_t windows_bytes);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_
