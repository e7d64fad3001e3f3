// What a configuration must satisfy before anything is made of it.
#include "daemon/transport/transport_config.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace causeway::transport {
namespace {

constexpr absl::Duration kPeerTimeoutMin = absl::Milliseconds(100);
constexpr absl::Duration kPeerTimeoutMax = absl::Minutes(10);

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckPeers(const TransportConfig& config) {
  if (config.peers.size() > static_cast<size_t>(kPeersMax)) {
    return Invalid(absl::StrCat("peers: ", config.peers.size(), ", limit ", kPeersMax));
  }
  std::set<std::string> names = {config.cluster};
  for (const PeerConfig& peer : config.peers) {
    if (peer.cluster.empty() || peer.cluster.size() > kNameBytesMax) {
      return Invalid("peers: a cluster name is empty or too long");
    }
    if (!names.insert(peer.cluster).second) {
      return Invalid(
          absl::StrCat("peers: cluster ", peer.cluster, " twice, or this cluster itself"));
    }
    if (!peer.relay.empty() && !peer.address.empty()) {
      return Invalid(absl::StrCat("peers: cluster ", peer.cluster, " has a relay and an address"));
    }
    if (peer.address.empty() && peer.relay.empty()) continue;
    if (peer.credentials == nullptr) {
      return Invalid(
          absl::StrCat("peers: cluster ", peer.cluster, " has an address but no credentials"));
    }
  }
  for (const PeerConfig& peer : config.peers) {
    const auto is_relay = [&](const PeerConfig& other) {
      return other.cluster == peer.relay && !other.address.empty();
    };
    if (!peer.relay.empty() && std::none_of(config.peers.begin(), config.peers.end(), is_relay)) {
      return Invalid(absl::StrCat("peers: cluster ", peer.cluster, "'s relay ", peer.relay,
                                  " is no peer with an address"));
    }
  }
  if (config.relay.size() > kRelayPairsMax) {
    return Invalid(absl::StrCat("relay: ", config.relay.size(), " pairs, limit ", kRelayPairsMax));
  }
  if (config.lanes_total_max < static_cast<int>(config.peers.size())) {
    return Invalid(absl::StrCat("lanes_total_max: ", config.lanes_total_max, " for ",
                                config.peers.size(), " peers"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const TransportConfig& config) {
  if (config.cluster.empty() || config.cluster.size() > kNameBytesMax) {
    return Invalid("cluster: empty or too long");
  }
  if (config.incarnation == 0) return Invalid("incarnation: must not be 0");
  if (config.software.size() > kTextBytesMax) return Invalid("software: too long");
  if (!config.identity) return Invalid("identity: missing");
  if (!config.listen.empty() && config.server_credentials == nullptr) {
    return Invalid("server_credentials: missing");
  }
  if (config.lanes < 0 || config.lanes > kLanesPerPeerMax) {
    return Invalid(absl::StrCat("lanes: ", config.lanes, " is outside 0 to ", kLanesPerPeerMax));
  }
  if (config.peer_timeout < kPeerTimeoutMin || config.peer_timeout > kPeerTimeoutMax) {
    return Invalid(absl::StrCat("peer_timeout: ", absl::FormatDuration(config.peer_timeout),
                                " is outside ", absl::FormatDuration(kPeerTimeoutMin), " to ",
                                absl::FormatDuration(kPeerTimeoutMax)));
  }
  if (config.version_min == 0 || config.version_min > config.version_max) {
    return Invalid("version_min, version_max: no window");
  }
  return CheckPeers(config);
}

}  // namespace causeway::transport
