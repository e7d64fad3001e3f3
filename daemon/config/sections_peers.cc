// Who the other gateways are and which way leads to them: peers, lanes, relays, the own address.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/scalars.h"
#include "daemon/config/sections.h"
#include "daemon/config/suggest.h"

namespace causeway::config {
namespace {

constexpr size_t kRelayPairsMax = 1024;

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET || v4->sin_addr.s_addr == 0;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

// What others would reach under this address is not this gateway. Names are looked up where
// `lookup`; one that this host cannot resolve may still be good elsewhere.
bool LeadsBackHere(const std::string& host, bool lookup) {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = lookup ? 0 : AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!IsLoopback(one->ai_addr)) return false;
  }
  return true;
}

void ReadAdvertise(MapReader& top, const Context& context, Config* config) {
  top.String("advertise", &config->advertise);
  if (config->advertise.empty()) return;
  const absl::StatusOr<Address> address = ParseDialAddress(config->advertise);
  if (!address.ok()) {
    top.Error("advertise", std::string(address.status().message()));
  } else if (LeadsBackHere(address->host, context.options.check_files)) {
    top.Error("advertise",
              absl::StrCat("'", config->advertise,
                           "' leads every host back to itself (Debian gives a host's own name "
                           "127.0.1.1); write the address that the other clusters reach"));
  }
}

void ReadLanes(MapReader& top, Config* config) {
  const Node* node = top.Has("lanes") ? top.Take("lanes") : nullptr;
  if (node != nullptr && node->kind == Node::Kind::kScalar && node->scalar == "auto") {
    config->lanes = 0;
    return;
  }
  int64_t lanes = config->lanes;
  if (top.Integer("lanes", 1, kLanesMax, &lanes)) config->lanes = static_cast<int>(lanes);
}

bool ReadPeerCluster(MapReader& reader, const Context& context, const Config& config,
                     std::map<std::string, int>* lines, Peer* peer) {
  reader.String("cluster", &peer->cluster);
  if (peer->cluster.empty()) return false;
  const Place place = reader.PlaceOf("cluster");
  if (!CheckClusterName(place, peer->cluster, context.findings)) return false;
  if (peer->cluster == config.cluster) {
    reader.Error("cluster",
                 absl::StrCat("'", peer->cluster, "' is this cluster; peers are the other ones"));
    return false;
  }
  const auto [first, fresh] = lines->emplace(peer->cluster, place.position.line);
  if (!fresh) {
    reader.Error("cluster",
                 absl::StrCat("'", peer->cluster, "' is already a peer, on line ", first->second));
  }
  return fresh;
}

void ReadPeer(const Node& item, const std::string& path, const Context& context,
              std::map<std::string, int>* lines, std::map<std::string, Place>* relays,
              Config* config) {
  const Node* map = MapEntry(item, path, context.findings);
  if (map == nullptr) return;
  MapReader reader(*map, path, "peers[]", context.findings);
  Peer peer;
  reader.String("address", &peer.address);
  if (!peer.address.empty()) {
    const absl::StatusOr<Address> address = ParseDialAddress(peer.address);
    if (!address.ok()) reader.Error("address", std::string(address.status().message()));
  }
  reader.RateBits("rate_limit", kRateLimitBitsMin, kRateLimitBitsMax, &peer.rate_limit_bits);
  reader.String("relay", &peer.relay);
  if (!peer.relay.empty() && !peer.address.empty()) {
    reader.Error("relay", "goes without an address: either this side dials it, or the relay does");
    peer.relay.clear();
  }
  if (!ReadPeerCluster(reader, context, *config, lines, &peer)) return;
  if (!peer.relay.empty()) relays->emplace(peer.cluster, reader.PlaceOf("relay"));
  config->peers.push_back(std::move(peer));
}

const Peer* FindPeer(const Config& config, const std::string& cluster) {
  const auto found = std::find_if(config.peers.begin(), config.peers.end(),
                                  [&](const Peer& peer) { return peer.cluster == cluster; });
  return found == config.peers.end() ? nullptr : &*found;
}

// Of the peers reached through another one.
void CheckRelays(const std::map<std::string, Place>& relays, const Context& context,
                 const Config& config) {
  for (const auto& [cluster, place] : relays) {
    const std::string& name = FindPeer(config, cluster)->relay;
    const Peer* relay = FindPeer(config, name);
    std::string wrong;
    if (name == cluster) {
      wrong = "is the peer itself";
    } else if (relay == nullptr) {
      wrong = "is no peer of this cluster";
    } else if (relay->address.empty()) {
      wrong = "has no address here; both ends dial their relay";
    }
    if (!wrong.empty()) {
      context.findings.Error(place.position, place.key, absl::StrCat("'", name, "' ", wrong));
    }
  }
}

void ReadRelayPairs(MapReader& top, const Context& context, Config* config) {
  const std::vector<const Node*> items = ListItems(top, "relay", kRelayPairsMax);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string path = absl::StrCat("relay[", i, "]");
    const auto wrong = [&](const std::string& what) {
      context.findings.Error(items[i]->position, path, what);
    };
    if (items[i]->kind != Node::Kind::kSequence || items[i]->items.size() != 2) {
      wrong("expected two clusters, such as [paris, tokyo]");
      continue;
    }
    const std::string first = items[i]->items[0].scalar;
    const std::string second = items[i]->items[1].scalar;
    const bool known = FindPeer(*config, first) != nullptr && FindPeer(*config, second) != nullptr;
    if (!known || first == second) {
      wrong(absl::StrCat("'", first, "' and '", second, "' are not two peers of this cluster"));
    } else {
      config->relay.emplace_back(std::min(first, second), std::max(first, second));
    }
  }
}

}  // namespace

void ReadPeers(MapReader& top, const Context& context, Config* config) {
  ReadAdvertise(top, context, config);
  ReadLanes(top, config);
  std::map<std::string, int> lines;
  std::map<std::string, Place> relays;
  const std::vector<const Node*> items = ListItems(top, "peers", kPeersMax);
  for (size_t i = 0; i < items.size(); ++i) {
    ReadPeer(*items[i], absl::StrCat("peers[", i, "]"), context, &lines, &relays, config);
  }
  CheckRelays(relays, context, *config);
  ReadRelayPairs(top, context, config);
  const size_t lanes = config->peers.size() * static_cast<size_t>(config->lanes);
  if (lanes > kLanesTotalMax) {
    top.Warning("lanes",
                absl::StrCat(config->lanes, " lanes to each of ", config->peers.size(),
                             " peers are more than the ", kLanesTotalMax,
                             " of one gateway; each gets ", kLanesTotalMax / config->peers.size()));
  }
}

}  // namespace causeway::config
