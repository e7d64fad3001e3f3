// Link: the live connection to one peer: a control stream and its lanes.
//
// It says and checks hello, keeps the peer's process proven alive by heartbeats, carries run
// messages and credits, opens (where this side dialled) or admits lanes, and gives the chunks of a
// broken lane back to the queue. It is up from the peer's valid hello until it ends, and ends once.
// It opens no second link: Peer does. Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LINK_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LINK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/lane.h"
#include "daemon/transport/line_pacer.h"
#include "daemon/transport/link_timing.h"
#include "daemon/transport/number_window.h"
#include "daemon/transport/receive_credits.h"
#include "daemon/transport/send_queue.h"
#include "daemon/transport/shared.h"
#include "daemon/transport/stall_watch.h"

namespace causeway::wan::v1 {
class ControlFrame;
class Credit;
class Heartbeat;
class Hello;
class RunMessage;
}  // namespace causeway::wan::v1

namespace causeway::transport {

// What of a peer outlives its links.
struct PeerRecord {
  PeerRecord(const PeerConfig& config, const Shared& shared)
      : config(config),
        credits(RateLimit(config.rate_limit_bits, kCreditBurst)),
        send_limit(config.rate_limit_bits, kSendBurst),
        lanes(shared.config.lanes, shared.lanes_share, shared.send_buffer_bytes) {}

  // Where to dial: as configured, else as the peer has said; an empty address: nowhere.
  PeerConfig Target() const {
    PeerConfig target = config;
    if (target.address.empty()) target.address = advertised;
    return target;
  }

  const PeerConfig& config;
  std::string advertised;  // by the peer, of use where no address is configured
  // Credit must cover a round trip and the time between two grants.
  static constexpr absl::Duration kCreditBurst = absl::Milliseconds(500);
  static constexpr absl::Duration kSendBurst = absl::Milliseconds(10);

  SendQueue queue;
  ReceiveCredits credits;
  RateLimit send_limit;
  PeerStatus counters;  // only its counters and last_error are kept current
  LaneCount lanes;
  RateMeter send_rate;
  RateMeter receive_rate;
};

class Link final : public ByteStream::Handler, public Lane::Owner {
 public:
  class Owner {
   public:
    // A link that was dialled is about to be up: what it replaces must end now.
    virtual void OnLinkAnswered(Link& link, uint64_t incarnation) = 0;
    virtual void OnLinkUp(Link& link) = 0;
    // The link is over; `was_up`: OnLinkUp was called. The owner buries the link.
    virtual void OnLinkEnded(Link& link, const absl::Status& reason, bool was_up) = 0;
    // Chunks wait for the rate limit until then: PumpLanes, please.
    // The peer is a relay, and `from` wants to reach this gateway through it.
    virtual void OnTunnelOffer(uint64_t tunnel, const std::string& from) = 0;
    virtual void OnPaced(absl::Time until) = 0;
    virtual void OnControlSent(size_t bytes) = 0;  // a queued run message left, or was dropped
    virtual void OnChunkAcknowledged(const OutgoingChunk& chunk) = 0;

   protected:
    ~Owner() = default;
  };

  Link(Shared& shared, Owner& owner, PeerRecord& peer);
  ~Link();

  // One of the two, once.
  void Dial(absl::Time now, absl::Duration patience);
  // `hello` is checked (CheckHello) and the peer's identity proven. Returns after OnLinkUp.
  void Accept(ByteStream* stream, const wan::v1::Hello& hello, absl::Time now);

  // What every hello must satisfy, apart from who sent it.
  static absl::Status CheckHello(const TransportConfig& config, const wan::v1::Hello& hello);

  bool up() const { return up_; }
  bool dialled_here() const { return dialled_here_; }
  bool hello_sent() const { return hello_sent_; }
  uint64_t id() const { return info_.link; }
  uint64_t incarnation() const { return incarnation_; }
  const LinkInfo& info() const { return info_; }
  const RttMeter& rtt() const { return rtt_; }
  absl::Duration silent(absl::Time now) const { return now - received_at_; }
  int lanes_up() const override;
  int lanes_wanted() const { return lanes_wanted_; }
  uint64_t unacknowledged_chunks() const;
  uint64_t unacknowledged_bytes() const;
  std::set<std::string> remotes() const;  // addresses of its live connections, as gRPC names them
  bool idle() const;                      // nothing of ours waits to be sent or acknowledged

  // A lane that the peer opened. An error refuses the stream, which is the caller's again.
  absl::Status AdmitLane(ByteStream* stream, const LaneHelloFrame& hello, absl::Time now);
  void SendTunnelOffer(uint64_t tunnel, const std::string& from);
  void SendLaneWish();  // what the record wants has changed
  void SendRunMessage(grpc::ByteBuffer frame);
  void PumpLanes();
  // Announces credit that has grown; `all`: however little.
  void SendGrants(bool all);
  void Tick(absl::Time now);
  // Chunks wait for the line; `tcp` is of now.
  void Pace(absl::Time now, const TcpTotals& tcp);
  // Whether the line carries nothing at all, however small, while bytes are in flight; of a link
  // dialled here. `repeats`: how many links before this one stood still, too. Looked at every tick.
  bool StandsStill(absl::Time now, int repeats);
  // Whether some of its connections still repeat in vain.
  bool LeavesBehind(absl::Time now);
  // Ends the link, telling the peer why. OnLinkEnded is called before it returns.
  void End(const absl::Status& reason);
  // Everything that was sent and is not acknowledged, after the end.
  std::vector<OutgoingChunk> TakeUnacknowledged();

  // Of the control stream.
  void OnOpen() override;
  void OnRead(const grpc::ByteBuffer& frame) override;
  void OnWritten() override;
  void OnClosed(const absl::Status& reason) override;

  // Of its lanes.
  std::optional<OutgoingChunk> NextChunk() override;
  void OnAcknowledged(const OutgoingChunk& chunk) override;
  void OnReceived() override;
  absl::StatusOr<Lane::Admission> Admit(const ChunkFrame& chunk) override;
  void OnPayload(const ChunkHeader& header, memory::Buffer payload) override;
  uint64_t LineBytes(absl::Time now) override;
  void OnNoMemory() override { ++peer_.counters.chunks_without_memory; }
  void OnLaneUp(Lane& lane) override;
  void OnLaneBroken(Lane& lane, const absl::Status& reason, bool stalled) override;
  void OnViolation(const absl::Status& reason) override;

 private:
  // A place for a lane: its present lane and how to get the next one.
  struct LaneSlot {
    std::unique_ptr<Lane> lane;
    Backoff backoff;
    absl::Time dial_at;
    int stalls = 0;  // breaks for lack of progress in a row: each doubles the patience
  };

  enum class Farewell { kTell, kSilent };

  void Up(const wan::v1::Hello& hello, absl::Time now);
  void LearnAddress(const std::string& address);
  void SayHello(wan::v1::Hello& hello);
  void OnHello(const wan::v1::Hello& hello);
  void OnFrame(wan::v1::ControlFrame& frame);
  grpc::ByteBuffer Heartbeat(absl::Time now);
  void OnHeartbeat(const wan::v1::Heartbeat& heartbeat, absl::Time now);
  void OnCredit(const wan::v1::Credit& credit);
  void Heard(absl::Time now);
  bool BytesArrive(absl::Time now);
  void PumpControl();
  std::optional<grpc::ByteBuffer> NextControlFrame();
  bool ControlWaits() const;
  void OnLaneWish(uint32_t wanted);
  void DialLane(uint32_t index, absl::Time now);
  LaneHelloFrame LaneHello(uint32_t lane, bool ours) const;
  void TickLanes(absl::Time now, absl::Duration own_pause);
  void BreakLane(LaneSlot& slot, bool stalled, absl::Time now);
  void EndLanes();
  void EndWith(const absl::Status& reason, Farewell farewell);

  Shared& shared_;
  Owner& owner_;
  PeerRecord& peer_;
  ByteStream* stream_ = nullptr;
  bool dialled_here_ = false;
  bool hello_sent_ = false;
  bool up_ = false;
  bool ended_ = false;
  LinkInfo info_;
  uint64_t incarnation_ = 0;
  std::vector<std::shared_ptr<grpc::Channel>>
      lane_channels_;  // dialled: connecting while hellos travel

  // What the control stream has to send, in this order.
  bool hello_due_ = false;
  bool heartbeat_due_ = false;
  bool lane_wish_due_ = false;
  std::deque<std::pair<uint64_t, std::string>> tunnel_offers_;  // bounded by the relay's tunnels
  std::map<std::string, uint64_t> grants_due_;  // by run: only the newest total matters
  std::deque<grpc::ByteBuffer> run_messages_;
  absl::Time control_write_at_ = absl::InfiniteFuture();  // of the write outstanding

  std::vector<LaneSlot> lanes_;  // as many as were agreed; the first lanes_wanted_ are in use
  LinePacer pacer_;
  StallWatch stall_;
  std::optional<uint64_t> paced_bytes_per_s_;  // what each connection was told; 0: as it likes
  int lanes_wanted_ = 0;
  int lanes_wished_ = 0;                       // by the peer
  std::vector<OutgoingChunk> unacknowledged_;  // after the end

  NumberWindow received_numbers_;
  RttMeter rtt_;
  absl::Time hello_sent_at_;
  absl::Time ticked_at_;
  absl::Time received_at_;                // anything from the peer
  absl::Time frame_at_;                   // a whole frame
  std::optional<uint64_t> tcp_received_;  // bytes, as of the newest look since then
  absl::Time progress_reported_at_;
  absl::Time heartbeat_at_;  // the newest of ours
  uint64_t heartbeat_received_ = 0;
  absl::Time heartbeat_received_at_;
  int heartbeats_answered_at_once_ = 0;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LINK_H_
