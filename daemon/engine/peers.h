// What is known of each other gateway of the run, and which of its messages may be believed.
//
// Confined to the engine. Knows incarnations, times of hearing and the newest report; decides
// nothing about membership.
#ifndef CAUSEWAY_DAEMON_ENGINE_PEERS_H_
#define CAUSEWAY_DAEMON_ENGINE_PEERS_H_

#include <optional>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/message.h"

namespace causeway::engine {

struct Peer {
  Incarnation incarnation = 0;  // highest heard of
  Time heard = 0;               // last sign of life of that incarnation
  bool ever_heard = false;
  bool connected = false;
  std::optional<Report> report;  // newest heartbeat of that incarnation
  std::optional<Join> join;      // newest JOIN of that incarnation
  Incarnation foreign = 0;     // which holds the run of another founding and is not heard; 0: none
  bool join_is_fresh = false;  // it named our incarnation, so it was sent in our lifetime
};

class PeerTable {
 public:
  PeerTable(int clusters, ClusterId self, Time silence_max)
      : peers_(static_cast<size_t>(clusters)), self_(self), silence_max_(silence_max) {}

  int size() const { return static_cast<int>(peers_.size()); }
  Peer& operator[](ClusterId id) { return peers_[id]; }
  const Peer& operator[](ClusterId id) const { return peers_[id]; }

  // A sign of life of an incarnation. False: an older one, not to be believed.
  bool Hear(ClusterId from, Incarnation incarnation, Time now);

  // Heard of within the peer timeout.
  bool Alive(ClusterId id, Time now) const {
    const Peer& peer = peers_[id];
    return id == self_ || (peer.ever_heard && now - peer.heard <= silence_max_);
  }
  ClusterSet AliveSet(Time now) const;

  // The newest report, if its sender is alive.
  const Report* LiveReport(ClusterId id, Time now) const {
    const Peer& peer = peers_[id];
    return id != self_ && peer.report && Alive(id, now) ? &*peer.report : nullptr;
  }

  // This process stood still for `gap`: nobody's silence counts for that long.
  void Forgive(Time gap);

 private:
  std::vector<Peer> peers_;
  ClusterId self_;
  Time silence_max_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_PEERS_H_
