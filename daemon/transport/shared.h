// Shared: what the parts of one transport have in common. Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_SHARED_H_
#define CAUSEWAY_DAEMON_TRANSPORT_SHARED_H_

#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "daemon/transport/byte_stream.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/lane_count.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/link_timing.h"
#include "daemon/transport/poller.h"
#include "daemon/transport/tcp_sockets.h"
#include "daemon/transport/transport.h"

namespace causeway::transport {

class Tunnels;

struct Shared {
  Shared(const TransportConfig& config, memory::BufferPool& pool, grpc::ResourceQuota& quota,
         TransportListener& listener, Poller& poller)
      : config(config),
        times(config.peer_timeout),
        pool(pool),
        quota(quota),
        listener(listener),
        poller(poller),
        random(config.incarnation),
        lanes_share(LanesShare(config)),
        send_buffer_bytes(SendBufferBytesMax()) {}

  // What each peer may have of all lanes, so that none finds them taken.
  static int LanesShare(const TransportConfig& config) {
    const int peers = std::max(1, static_cast<int>(config.peers.size()));
    return std::clamp(config.lanes_total_max / peers, 1, kLanesPerPeerMax);
  }

  // Destroys `object` after the current event: it may be on the stack.
  template <typename T>
  void Bury(std::unique_ptr<T> object) {
    if (object != nullptr) graveyard.push_back(std::shared_ptr<void>(std::move(object)));
  }

  std::shared_ptr<grpc::Channel> Dial(const PeerConfig& peer, Use use) {
    return channels.Keep(MakeChannel(peer, use, times.peer_timeout, times.hello_timeout, quota));
  }

  const TransportConfig& config;
  const LinkTimes times;
  memory::BufferPool& pool;
  grpc::ResourceQuota& quota;  // gRPC's own memory
  TransportListener& listener;
  Poller& poller;
  std::mt19937_64 random;
  const int lanes_share;
  const uint64_t send_buffer_bytes;
  ChannelKeeper channels;  // outlives the streams
  StreamSet streams;
  TcpSnapshot tcp;
  bool draining = false;       // no new links
  Tunnels* tunnels = nullptr;  // null: no peer is behind a relay
  std::vector<std::shared_ptr<void>> graveyard;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_SHARED_H_
