// Incarnations ascend for one cluster, so a lower one is a ghost of an earlier process whose
// messages were still under way.
#include "daemon/engine/peers.h"

namespace causeway::engine {

bool PeerTable::Hear(ClusterId from, Incarnation incarnation, Time now) {
  Peer& peer = peers_[from];
  if (incarnation < peer.incarnation) return false;
  if (incarnation > peer.incarnation) {
    const bool connected = peer.connected;
    peer = Peer();
    peer.incarnation = incarnation;
    peer.connected = connected;
  }
  peer.heard = now;
  peer.ever_heard = true;
  return true;
}

ClusterSet PeerTable::AliveSet(Time now) const {
  ClusterSet alive;
  for (int id = 0; id < size(); ++id) {
    if (Alive(static_cast<ClusterId>(id), now)) alive.Insert(static_cast<ClusterId>(id));
  }
  return alive;
}

void PeerTable::Forgive(Time gap) {
  for (Peer& peer : peers_) peer.heard += gap;
}

}  // namespace causeway::engine
