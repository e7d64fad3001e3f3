// Peer: one configured cluster: its link, the attempts to make one, and what waits for it.
//
// Who dials: a side that has an address. If both have one, the lower cluster name dials at once and
// the higher one after a grace without a link. Of two links the one that the lower name dialled
// stays; a link whose peer has gone silent gives way to a new one; a second live process of a
// cluster is refused. Where the line stood still and is back, who dialled dials again: TCP would
// find out late. Poller thread only, except PeerFront.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_PEER_H_
#define CAUSEWAY_DAEMON_TRANSPORT_PEER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/transport/gathering.h"
#include "daemon/transport/line_scout.h"
#include "daemon/transport/link.h"
#include "daemon/transport/shared.h"

namespace causeway::transport {

// What other threads see of a peer: enough to refuse at once what cannot be sent.
struct PeerFront {
  std::atomic<uint64_t> link{0};  // id of the live link; 0: none
  std::atomic<size_t> control_bytes{0};
  std::atomic<size_t> chunks{0};
};

class Peer final : public Link::Owner {
 public:
  Peer(Shared& shared, const PeerConfig& config, PeerFront& front, absl::Time now);

  // Decides over a link that the peer dialled; its identity is proven and its hello checked. An
  // error refuses the stream, which is the caller's again.
  absl::Status Offer(ByteStream* stream, const wan::v1::Hello& hello, absl::Time now);
  absl::Status OfferLane(ByteStream* stream, const LaneHelloFrame& hello, absl::Time now);

  // `link`: the live one when the caller asked. On another, or none, messages are dropped and
  // chunks reported lost.
  void SendRunMessage(uint64_t link, grpc::ByteBuffer frame);
  void SendChunk(uint64_t link, OutgoingChunk chunk);
  void CancelChunks(const std::function<bool(const ChunkHeader&)>& matches);
  void SetWindow(const std::string& run, uint64_t bytes);
  bool SendTunnelOffer(uint64_t tunnel, const std::string& from);  // false: no link
  void ReturnCredit(const std::string& run, uint64_t payload_bytes);
  void Disconnect(const absl::Status& reason, absl::Time until);
  void Drain();  // says goodbye once idle
  void Stop();

  bool idle() const;
  bool linked() const { return link_ != nullptr; }
  void Tick(absl::Time now);
  void OnTcp(absl::Time now);  // shared.tcp is new
  PeerStatus Status(absl::Time now) const;
  PeerRates Rates(absl::Time now) const;
  // Adds this peer's connections, and to the totals what it received and sent since Start.
  void AddTraffic(Traffic& traffic, uint64_t& received_bytes, uint64_t& sent_bytes) const;

  void OnLinkAnswered(Link& link, uint64_t incarnation) override;
  void OnLinkUp(Link& link) override;
  void OnLinkEnded(Link& link, const absl::Status& reason, bool was_up) override;
  void OnTunnelOffer(uint64_t tunnel, const std::string& from) override;
  void OnPaced(absl::Time until) override;
  void OnControlSent(size_t bytes) override;
  void OnChunkAcknowledged(const OutgoingChunk& chunk) override;

 private:
  bool lower() const { return shared_.config.cluster < record_.config.cluster; }
  absl::Status Replaced(const std::string& text, uint64_t incarnation) const;
  absl::Status Judge(const wan::v1::Hello& hello, absl::Time now) const;
  void ReviveLink(absl::Time now);
  void Done(const OutgoingChunk& chunk, const absl::Status& status);

  Shared& shared_;
  PeerFront& front_;
  PeerRecord record_;
  std::unique_ptr<Link> link_;        // up
  std::unique_ptr<Link> dialling_;    // not yet; beside one that is up, which stands still
  std::unique_ptr<Link> accepting_;   // during Accept only
  std::unique_ptr<LineScout> scout_;  // the line stands still
  std::set<int> stalled_ports_;       // of its connections when a new link was dialled
  int revivals_ = 0;                  // in a row, since chunks moved
  uint64_t moved_bytes_ = 0;          // of chunks, as of the newest
  bool paced_ = false;                // a timer will pump the lanes
  Backoff backoff_;
  absl::Time dial_at_;
  absl::Time refuse_until_;
  absl::Time linkless_since_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_PEER_H_
