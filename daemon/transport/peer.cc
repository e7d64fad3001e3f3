#include "daemon/transport/peer.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/transport/tcp_sockets.h"
#include "daemon/transport/tunnels.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

// How long a connection may take whose first packet got an answer: it is four round trips. After
// that the line is asked again.
constexpr absl::Duration kReviveMin = absl::Seconds(2);
constexpr int kReviveRtts = 10;

}  // namespace

Peer::Peer(Shared& shared, const PeerConfig& config, PeerFront& front, absl::Time now)
    : shared_(shared),
      front_(front),
      record_(config, shared),
      dial_at_(now),
      refuse_until_(now),
      linkless_since_(now) {}

absl::Status Peer::Judge(const wan::v1::Hello& hello, absl::Time now) const {
  if (shared_.draining) return absl::UnavailableError("this gateway is draining");
  if (now < refuse_until_)
    return absl::UnavailableError("links from this cluster are refused for the moment");
  const absl::Status duplicate = absl::AbortedError(absl::StrCat(
      "duplicate link: the one dialled by cluster ", shared_.config.cluster, " stays"));
  if (link_ != nullptr) {
    const bool silent = link_->silent(now) > 2 * shared_.times.heartbeat;
    if (silent) return absl::OkStatus();
    if (link_->incarnation() != hello.incarnation()) {
      return absl::AlreadyExistsError(
          absl::StrCat("a process of cluster ", record_.config.cluster, " (incarnation ",
                       link_->incarnation(), ") is linked and alive; a second one (incarnation ",
                       hello.incarnation(), ") is refused"));
    }
    return link_->dialled_here() && lower() ? duplicate : absl::OkStatus();
  }
  return dialling_ != nullptr && lower() && dialling_->hello_sent() ? duplicate : absl::OkStatus();
}

// Why a link ends when another one, to that incarnation, takes its place.
absl::Status Peer::Replaced(const std::string& text, uint64_t incarnation) const {
  if (link_ == nullptr || link_->incarnation() == incarnation) return absl::AbortedError(text);
  return absl::UnavailableError(absl::StrCat(text, "; the peer was restarted meanwhile"));
}

absl::Status Peer::Offer(ByteStream* stream, const wan::v1::Hello& hello, absl::Time now) {
  if (absl::Status verdict = Judge(hello, now); !verdict.ok()) return verdict;
  const absl::Status replaced =
      Replaced("replaced by a link that the peer dialled", hello.incarnation());
  if (dialling_ != nullptr) dialling_->End(replaced);
  if (link_ != nullptr) link_->End(replaced);
  accepting_ = std::make_unique<Link>(shared_, *this, record_);
  accepting_->Accept(stream, hello, now);
  return absl::OkStatus();
}

absl::Status Peer::OfferLane(ByteStream* stream, const LaneHelloFrame& hello, absl::Time now) {
  if (link_ == nullptr) return absl::FailedPreconditionError("lane hello: there is no link");
  return link_->AdmitLane(stream, hello, now);
}

void Peer::OnLinkAnswered(Link& link, uint64_t incarnation) {
  if (&link != dialling_.get() || link_ == nullptr) return;
  ++revivals_;
  const std::set<std::string> remotes = link_->remotes();
  link_->End(
      Replaced("the line stood still; replaced by a new link as soon as it was back", incarnation));
  ResetConnections(remotes, stalled_ports_);
}

// TCP doubles the time between its repetitions, so after an outage the connections find out as late
// again as it lasted. A fresh one finds out at once.
void Peer::ReviveLink(absl::Time now) {
  const uint64_t moved =
      record_.counters.payload_bytes_acknowledged + record_.counters.payload_bytes_received;
  if (std::exchange(moved_bytes_, moved) != moved) revivals_ = 0;
  if (dialling_ != nullptr) return;
  const bool still = !shared_.draining && link_->StandsStill(now, revivals_);
  if (still) {
    if (now < dial_at_) return;
    if (scout_ == nullptr) scout_ = LineScout::To(link_->info().remote);
    if (scout_ == nullptr || !scout_->Answered(now)) return;
    scout_.reset();
  } else {
    // It may be back by itself, for one of the connections and not yet for the others.
    const bool asked = std::exchange(scout_, nullptr) != nullptr;
    if (!asked || shared_.draining || !link_->LeavesBehind(now)) return;
  }
  const absl::Duration patience = std::max(kReviveMin, kReviveRtts * link_->rtt().smoothed());
  dialling_ = std::make_unique<Link>(shared_, *this, record_);
  stalled_ports_ = LocalPorts(link_->remotes());
  dialling_->Dial(now, std::min(patience, shared_.times.hello_timeout));
}

void Peer::OnLinkUp(Link& link) {
  link_ = std::move(&link == dialling_.get() ? dialling_ : accepting_);
  backoff_.Reset();
  record_.counters.last_error.clear();
  ++record_.counters.links;
  front_.link = link.id();
  shared_.listener.OnPeerUp(record_.config.cluster, link.incarnation(), link.info());
}

void Peer::OnLinkEnded(Link& link, const absl::Status& reason, bool was_up) {
  const absl::Time now = MonotonicNow();
  std::unique_ptr<Link>& place =
      &link == link_.get() ? link_ : (&link == dialling_.get() ? dialling_ : accepting_);
  std::unique_ptr<Link> ended = std::move(place);
  record_.counters.last_error = std::string(reason.message());
  if (was_up) {
    front_.link = 0;
    scout_.reset();
    linkless_since_ = now;
  }
  if (link.dialled_here()) dial_at_ = std::max(refuse_until_, now + backoff_.Next(shared_.random));
  std::vector<OutgoingChunk> lost = ended->TakeUnacknowledged();
  if (was_up) {
    std::vector<OutgoingChunk> waiting = record_.queue.Clear();
    std::move(waiting.begin(), waiting.end(), std::back_inserter(lost));
    shared_.listener.OnPeerDown(record_.config.cluster, reason);
  }
  const absl::Status status = absl::UnavailableError(absl::StrCat(
      "the link to cluster ", record_.config.cluster, " was lost: ", reason.message()));
  for (const OutgoingChunk& chunk : lost) Done(chunk, status);
  shared_.Bury(std::move(ended));
}

bool Peer::SendTunnelOffer(uint64_t tunnel, const std::string& from) {
  if (link_ == nullptr) return false;
  link_->SendTunnelOffer(tunnel, from);
  return true;
}

void Peer::OnTunnelOffer(uint64_t tunnel, const std::string& from) {
  const absl::Status taken =
      shared_.tunnels == nullptr
          ? absl::PermissionDeniedError("a tunnel is offered, but no peer is behind a relay here")
          : shared_.tunnels->OnOffer(record_.config.cluster, tunnel, from, MonotonicNow());
  if (!taken.ok()) {
    shared_.listener.OnRefused(link_ == nullptr ? "" : link_->info().remote, record_.config.cluster,
                               taken);
  }
}

void Peer::OnPaced(absl::Time until) {
  if (std::exchange(paced_, true)) return;
  shared_.poller.At(until, [this] {
    paced_ = false;
    if (link_ != nullptr) link_->PumpLanes();
  });
}

void Peer::OnControlSent(size_t bytes) { front_.control_bytes -= bytes; }

void Peer::OnChunkAcknowledged(const OutgoingChunk& chunk) { Done(chunk, absl::OkStatus()); }

void Peer::Done(const OutgoingChunk& chunk, const absl::Status& status) {
  --front_.chunks;
  shared_.listener.OnChunkDone(record_.config.cluster, chunk.header, status);
}

void Peer::SendRunMessage(uint64_t link, grpc::ByteBuffer frame) {
  if (link_ == nullptr || link_->id() != link) {
    OnControlSent(frame.Length());
    return;
  }
  link_->SendRunMessage(std::move(frame));
}

void Peer::SendChunk(uint64_t link, OutgoingChunk chunk) {
  if (link_ == nullptr || link_->id() != link) {
    Done(chunk, absl::UnavailableError(absl::StrCat("the link to cluster ", record_.config.cluster,
                                                    " was lost before the chunk was queued")));
    return;
  }
  record_.queue.Add(std::move(chunk));
  link_->PumpLanes();
}

void Peer::CancelChunks(const std::function<bool(const ChunkHeader&)>& matches) {
  for (const OutgoingChunk& chunk : record_.queue.Cancel(matches)) {
    Done(chunk, absl::CancelledError("taken back before it was sent"));
  }
}

void Peer::SetWindow(const std::string& run, uint64_t bytes) {
  record_.credits.SetWindow(run, bytes);
  if (link_ != nullptr) link_->SendGrants(/*all=*/true);
}

void Peer::ReturnCredit(const std::string& run, uint64_t payload_bytes) {
  record_.credits.Return(run, payload_bytes);
  if (link_ != nullptr) link_->SendGrants(/*all=*/false);
}

void Peer::Disconnect(const absl::Status& reason, absl::Time until) {
  refuse_until_ = std::max(refuse_until_, until);
  dial_at_ = std::max(dial_at_, until);
  if (dialling_ != nullptr) dialling_->End(reason);
  if (link_ != nullptr) link_->End(reason);
}

bool Peer::idle() const {
  return link_ == nullptr || (link_->idle() && record_.queue.chunks() == 0 &&
                              front_.control_bytes == 0 && front_.chunks == 0);
}

void Peer::Drain() {
  if (dialling_ != nullptr) dialling_->End(absl::CancelledError("this gateway is draining"));
  if (link_ != nullptr && idle()) link_->End(absl::UnavailableError("this gateway stops"));
}

void Peer::Stop() {
  const absl::Status reason = absl::CancelledError("this gateway stopped");
  if (dialling_ != nullptr) dialling_->End(reason);
  if (link_ != nullptr) link_->End(reason);
}

void Peer::Tick(absl::Time now) {
  if (link_ != nullptr) {
    link_->Tick(now);
    if (link_ != nullptr) ReviveLink(now);
    if (link_ == nullptr || !record_.send_rate.busy()) return;
    shared_.tcp.Refresh(now, shared_.times.tick / 2);
    link_->Pace(now, shared_.tcp.Of(link_->remotes()));
    return;
  }
  if (dialling_ != nullptr || shared_.draining || record_.Target().address.empty() ||
      now < dial_at_)
    return;
  if (!lower() && now - linkless_since_ < shared_.times.dial_grace) return;
  dialling_ = std::make_unique<Link>(shared_, *this, record_);
  dialling_->Dial(now, shared_.times.hello_timeout);
}

void Peer::OnTcp(absl::Time now) {
  if (link_ == nullptr) return;
  const TcpTotals tcp = shared_.tcp.Of(link_->remotes());
  if (tcp.delivery_bytes_per_s > 0) {
    record_.send_rate.Hint(now, static_cast<double>(tcp.delivery_bytes_per_s));
  }
  if (record_.lanes.Look(record_.send_rate.Rate(now), link_->rtt().lowest())) {
    link_->SendLaneWish();
  }
}

PeerStatus Peer::Status(absl::Time now) const {
  PeerStatus status = record_.counters;
  status.cluster = record_.config.cluster;
  status.relay = record_.config.relay;
  if (status.relay.empty()) {
    status.address = record_.Target().address;
  } else if (link_ == nullptr && shared_.tunnels != nullptr) {
    const std::string tunnel = shared_.tunnels->LastError(status.cluster);
    if (!tunnel.empty()) status.last_error = absl::StrCat("relay ", status.relay, ": ", tunnel);
  }
  status.chunks_queued = record_.queue.chunks();
  status.bytes_queued = record_.queue.bytes();
  if (link_ == nullptr) {
    status.state = dialling_ != nullptr ? PeerState::kConnecting : PeerState::kDown;
    status.silent = now - linkless_since_;
    return status;
  }
  status.state = PeerState::kUp;
  status.incarnation = link_->incarnation();
  status.dialled_here = link_->dialled_here();
  status.version = link_->info().version;
  status.lanes_up = link_->lanes_up();
  status.lanes_wanted = link_->lanes_wanted();
  status.lanes_reason = record_.lanes.reason();
  status.rtt = link_->rtt().smoothed();
  status.rtt_min = link_->rtt().lowest();
  status.silent = link_->silent(now);
  status.chunks_unacknowledged = link_->unacknowledged_chunks();
  status.bytes_unacknowledged = link_->unacknowledged_bytes();
  const TcpTotals tcp = shared_.tcp.Of(link_->remotes());
  status.tcp_connections = tcp.connections;
  status.tcp_segments_sent = tcp.segments_sent;
  status.tcp_segments_resent = tcp.segments_resent;
  status.tcp_rtt = tcp.rtt_min;
  return status;
}

void Peer::AddTraffic(Traffic& traffic, uint64_t& received_bytes, uint64_t& sent_bytes) const {
  received_bytes += record_.counters.payload_bytes_received;
  sent_bytes += record_.counters.payload_bytes_acknowledged;
  if (link_ == nullptr) return;
  traffic.connections += link_->lanes_up() + 1;
  traffic.rtt_min = std::min(traffic.rtt_min, link_->rtt().lowest());
}

PeerRates Peer::Rates(absl::Time now) const {
  PeerRates rates;
  rates.cluster = record_.config.cluster;
  rates.up = link_ != nullptr;
  rates.send = record_.send_rate.Rate(now);
  rates.receive = record_.receive_rate.Rate(now);
  if (link_ == nullptr) return rates;
  rates.rtt = link_->rtt().smoothed();
  rates.rtt_min = link_->rtt().lowest();
  const TcpTotals tcp = shared_.tcp.Of(link_->remotes());
  if (tcp.segments_sent > 0) {
    rates.loss = static_cast<double>(tcp.segments_resent) / static_cast<double>(tcp.segments_sent);
  }
  return rates;
}

}  // namespace causeway::transport
