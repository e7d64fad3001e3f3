// Channels and server settings: every gRPC argument that the transport depends on, in one place.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_
#define CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_

#include <memory>

#include "daemon/transport/transport.h"

namespace grpc {
class Channel;
class ServerBuilder;
}  // namespace grpc

namespace causeway::transport {

inline constexpr char kControlMethod[] = "/causeway.wan.v1.Gateway/Control";
inline constexpr char kLaneMethod[] = "/causeway.wan.v1.Gateway/Lane";

// A channel with a TCP connection of its own, which begins to connect at once. A new one for each
// attempt: names are resolved again and gRPC's back-off does not add to ours.
std::shared_ptr<grpc::Channel> MakeChannel(const PeerConfig& peer, absl::Duration peer_timeout);

void ConfigureServer(grpc::ServerBuilder& builder, absl::Duration peer_timeout,
                     absl::Duration hello_timeout);

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_CHANNEL_H_
