// Tunnels: how this gateway reaches peers, and is reached by them, through a relay.
//
// Each peer behind a relay has an entrance here, a local socket that gRPC dials in its place; each
// connection to it becomes a tunnel, and so has a TCP connection to the relay of its own. Offers of
// the relay lead the other way, to this gateway's own server. TLS runs from end to end inside, so
// the relay, and whoever finds the local sockets, learns nothing and changes nothing. Poller thread
// only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TUNNELS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TUNNELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/transport/shared.h"
#include "daemon/transport/socket_waiter.h"
#include "daemon/transport/tunnel_end.h"

namespace causeway::transport {

// gRPC targets of this process's local sockets. They are of Linux's abstract kind: no file is left.
std::string TunnelEntranceTarget(uint64_t incarnation, size_t peer_index);
std::string TunnelServerTarget(uint64_t incarnation);

class Tunnels {
 public:
  explicit Tunnels(Shared& shared) : shared_(shared), waiter_(shared.poller) {}
  ~Tunnels();
  // Opens an entrance for each peer behind a relay. Before the poller runs.
  absl::Status Start();
  void End();         // all tunnels; poller thread
  void StopWaiter();  // not on the poller thread

  // The relay `relay` says that `from` wants to reach this gateway. An error says why it is let be.
  absl::Status OnOffer(const std::string& relay, uint64_t tunnel, const std::string& from,
                       absl::Time now);
  // Why the newest tunnel to a peer ended; empty: none did.
  std::string LastError(const std::string& cluster) const;

 private:
  struct Entrance {
    const PeerConfig* peer = nullptr;
    int listener = -1;
    uint64_t watch = 0;
  };

  const PeerConfig* FindPeer(const std::string& cluster) const;
  absl::Status OpenEntrance(const PeerConfig& peer);
  void OnCaller(const Entrance& entrance);
  void Dig(int descriptor, const PeerConfig& far, TunnelHelloFrame hello, absl::Time now);

  Shared& shared_;
  SocketWaiter waiter_;
  std::vector<std::unique_ptr<Entrance>> entrances_;
  std::map<std::string, std::string> errors_;                                      // by peer
  std::map<TunnelEnd*, std::pair<std::unique_ptr<TunnelEnd>, std::string>> ends_;  // and whither
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TUNNELS_H_
