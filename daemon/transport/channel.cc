// gRPC's keepalive is only the last resort, for a process that lost its poller: its pings queue
// behind bulk, so a short time-out would evict a busy slow link. Heartbeats and progress (Link,
// Lane) find what is dead.
#include "daemon/transport/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "daemon/transport/limits.h"

namespace causeway::transport {
namespace {

// What gRPC refuses ends the stream without a word, so frames some way above our own limits are
// let through to be refused by name.
constexpr int kMessageBytesMax =
    static_cast<int>(4 * std::max(kLaneFrameBytesMax, kControlFrameBytesMax));
constexpr int kMetadataBytesMax = 8 << 10;
// A chunk in few frames, and what has arrived in few reads.
constexpr int kFrameBytesMax = 1 << 20;
constexpr int kReadBytes = 256 << 10;
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kPingIntervalMinMs = 10'000;  // what the server tolerates
constexpr int kNeverAgainMs = 3'600'000;
constexpr int kConnectionIdleMs = 30'000;  // a connection without streams, such as an idle probe's
constexpr uint64_t kQuotaBaseBytes = uint64_t{512} << 20;
constexpr absl::Duration kKeepaliveTimeoutMin = absl::Seconds(20);

int KeepaliveTimeoutMs(absl::Duration peer_timeout) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::max(kKeepaliveTimeoutMin, 2 * peer_timeout)));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const PeerConfig& peer, Use use,
                                           absl::Duration peer_timeout,
                                           absl::Duration hello_timeout,
                                           const grpc::ResourceQuota& quota) {
  grpc::ChannelArguments arguments;
  arguments.SetResourceQuota(quota);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // One attempt a channel, as long as a hello may take: the next attempt is another channel's.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(hello_timeout)));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kNeverAgainMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kNeverAgainMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMs(peer_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytesMax);
  arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  if (use == Use::kControl) {
    // gRPC would measure the line with a ping for every message, each longer than a heartbeat.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                     static_cast<int>(kControlFrameBytesMax));
  }
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(peer.address, peer.credentials, arguments);
  channel->GetState(/*try_to_connect=*/true);
  return channel;
}

std::shared_ptr<grpc::Channel> ChannelKeeper::Keep(std::shared_ptr<grpc::Channel> channel) {
  channels_.push_back(channel);
  return channel;
}

int ChannelKeeper::Sweep() {
  int waiting = 0;
  channels_.erase(std::remove_if(channels_.begin(), channels_.end(),
                                 [&](const std::shared_ptr<grpc::Channel>& channel) {
                                   if (channel.use_count() > 1) return false;
                                   const bool connecting =
                                       channel->GetState(/*try_to_connect=*/false) ==
                                       GRPC_CHANNEL_CONNECTING;
                                   waiting += connecting ? 1 : 0;
                                   return !connecting;
                                 }),
                  channels_.end());
  return waiting;
}

void ConfigureServer(grpc::ServerBuilder& builder, absl::Duration peer_timeout,
                     absl::Duration hello_timeout, const grpc::ResourceQuota& quota) {
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytesMax);
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  // A second gateway on the same port is an error, not a partner that takes half the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kConnectionIdleMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(hello_timeout)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMs(peer_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

uint64_t QuotaBytes(uint64_t windows_bytes) { return kQuotaBaseBytes + 2 * windows_bytes; }

}  // namespace causeway::transport
