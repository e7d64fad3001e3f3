// The lanes of a link: dialled or admitted, broken and replaced; where chunks go in and out.
#include <grpcpp/channel.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/link.h"

namespace causeway::transport {
namespace {

constexpr int kStallDoublingsMax = 4;

}  // namespace

LaneHelloFrame Link::LaneHello(uint32_t lane, bool ours) const {
  if (ours) return {shared_.config.cluster, shared_.config.incarnation, info_.link, lane};
  return {peer_.config.cluster, incarnation_, info_.link, lane};
}

void Link::SendLaneWish() {
  lane_wish_due_ = true;
  OnLaneWish(static_cast<uint32_t>(lanes_wished_));
  PumpControl();
}

void Link::OnLaneWish(uint32_t wanted) {
  const int agreed = static_cast<int>(lanes_.size());
  lanes_wished_ = static_cast<int>(std::min<uint32_t>(wanted, kLanesPerPeerMax));
  lanes_wanted_ =
      std::max(lanes_wanted_, std::min(agreed, std::max(peer_.lanes.wanted(), lanes_wished_)));
}

void Link::DialLane(uint32_t index, absl::Time now) {
  // The first connections were begun with the control stream's.
  std::shared_ptr<grpc::Channel> channel = index < lane_channels_.size()
                                               ? std::move(lane_channels_[index])
                                               : shared_.Dial(peer_.Target(), Use::kBulk);
  LaneSlot& slot = lanes_[index];
  slot.lane =
      std::make_unique<Lane>(shared_, *this, LaneHello(index, true), LaneHello(index, false));
  slot.lane->Begin(
      DialStream(shared_.streams, shared_.poller, std::move(channel), kLaneMethod, nullptr),
      /*dialled=*/true, now);
}

absl::Status Link::AdmitLane(ByteStream* stream, const LaneHelloFrame& hello, absl::Time now) {
  if (!up_ || dialled_here_ || hello.link != info_.link || hello.incarnation != incarnation_) {
    return absl::FailedPreconditionError("lane hello: names no live link");
  }
  if (hello.lane >= lanes_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lane hello: lane ", hello.lane, " where ", lanes_.size(), " were agreed"));
  }
  LaneSlot& slot = lanes_[hello.lane];
  if (slot.lane != nullptr) {
    peer_.counters.last_error = absl::StrCat("lane ", hello.lane, ": the peer connected it again");
    BreakLane(slot, /*stalled=*/false, now);
  }
  slot.lane = std::make_unique<Lane>(shared_, *this, LaneHello(hello.lane, true), hello);
  slot.lane->Begin(stream, /*dialled=*/false, now);
  return absl::OkStatus();
}

void Link::PumpLanes() {
  // Backwards or forwards makes no difference: each takes one chunk while its stream is free.
  for (LaneSlot& slot : lanes_) {
    if (slot.lane != nullptr && slot.lane->up()) slot.lane->Pump();
    if (ended_) return;
  }
  peer_.send_rate.SetBusy(MonotonicNow(), peer_.queue.Sendable());
}

void Link::OnLaneUp(Lane&) { paced_bytes_per_s_.reset(); }

void Link::Pace(absl::Time now, const TcpTotals& tcp) {
  pacer_.Look(now, {tcp.connections, tcp.bytes_delivered, tcp.segments_sent, tcp.segments_resent,
                    tcp.rtt_in_flight, rtt_.lowest(), peer_.queue.bytes()});
  const int lanes = lanes_up();
  const uint64_t each =
      lanes < 2 ? 0 : static_cast<uint64_t>(pacer_.bytes_per_s() / static_cast<double>(lanes));
  if (each == paced_bytes_per_s_) return;
  paced_bytes_per_s_ = each;
  LimitRate(remotes(), each);
}

void Link::OnLaneBroken(Lane& lane, const absl::Status& reason, bool stalled) {
  if (ended_) return;
  const absl::Time now = MonotonicNow();
  peer_.counters.last_error = std::string(reason.message());
  shared_.listener.OnLaneBroken(peer_.config.cluster, static_cast<int>(lane.index()), reason);
  BreakLane(lanes_[lane.index()], stalled, now);
  PumpLanes();
}

// Puts what the lane's peer may not hold back at the head of the queue.
void Link::BreakLane(LaneSlot& slot, bool stalled, absl::Time now) {
  Lane& lane = *slot.lane;
  lane.End();
  if (lane.acknowledged_any()) {
    slot.backoff.Reset();
    slot.stalls = 0;
  }
  if (stalled) slot.stalls = std::min(slot.stalls + 1, kStallDoublingsMax);
  slot.dial_at = now + slot.backoff.Next(shared_.random);
  ++peer_.counters.lanes_broken;
  for (OutgoingChunk& chunk : lane.TakeUnacknowledged()) {
    ++peer_.counters.chunks_resent;
    peer_.counters.bytes_resent += chunk.payload.size();
    peer_.queue.AddAgain(std::move(chunk));
  }
  shared_.Bury(std::move(slot.lane));
}

void Link::TickLanes(absl::Time now, absl::Duration own_pause) {
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    LaneSlot& slot = lanes_[i];
    if (slot.lane != nullptr) {
      const absl::Duration patience = shared_.times.peer_timeout * (int64_t{1} << slot.stalls);
      slot.lane->Tick(now, patience, own_pause);
    } else if (dialled_here_ && static_cast<int>(i) < lanes_wanted_ && now >= slot.dial_at) {
      DialLane(i, now);
    }
    if (ended_) return;
  }
}

void Link::EndLanes() {
  for (LaneSlot& slot : lanes_) {
    if (slot.lane == nullptr) continue;
    slot.lane->End();
    std::deque<OutgoingChunk> chunks = slot.lane->TakeUnacknowledged();
    std::move(chunks.begin(), chunks.end(), std::back_inserter(unacknowledged_));
    shared_.Bury(std::move(slot.lane));
  }
  lanes_.clear();
  peer_.send_rate.SetBusy(MonotonicNow(), false);
}

std::vector<OutgoingChunk> Link::TakeUnacknowledged() { return std::exchange(unacknowledged_, {}); }

void Link::OnAcknowledged(const OutgoingChunk& chunk) {
  peer_.queue.Acknowledged(chunk.number);
  peer_.counters.payload_bytes_acknowledged += chunk.payload.size();
  peer_.send_rate.Moved(MonotonicNow(), chunk.payload.size(), rtt_.lowest());
  owner_.OnChunkAcknowledged(chunk);
}

std::optional<OutgoingChunk> Link::NextChunk() {
  RateLimit& limit = peer_.send_limit;
  if (limit.limited()) {
    const absl::Time now = MonotonicNow();
    if (limit.Tokens(now) <= 0) {
      pacer_.Idle();
      if (peer_.queue.Sendable()) owner_.OnPaced(limit.ReadyAt(now));
      return std::nullopt;
    }
  }
  std::optional<OutgoingChunk> chunk = peer_.queue.Take();
  if (chunk.has_value()) {
    limit.Take(chunk->payload.size());
    ++peer_.counters.chunks_sent;
    peer_.counters.payload_bytes_sent += chunk->payload.size();
  } else {
    peer_.send_rate.SetBusy(MonotonicNow(), false);  // the line waits for chunks or credit
    pacer_.Idle();
  }
  return chunk;
}

absl::StatusOr<Lane::Admission> Link::Admit(const ChunkFrame& chunk) {
  switch (received_numbers_.Peek(chunk.number)) {
    case NumberWindow::Mark::kAgain:
      ++peer_.counters.chunks_duplicate;
      return Lane::Admission::kDrop;
    case NumberWindow::Mark::kTooFar:
      return absl::InvalidArgumentError(absl::StrCat(
          "chunk number ", chunk.number, " is too far ahead of ", received_numbers_.low()));
    case NumberWindow::Mark::kNew:
      break;
  }
  absl::StatusOr<ReceiveCredits::Verdict> verdict =
      peer_.credits.Receive(chunk.header.run, chunk.payload_bytes);
  if (!verdict.ok()) return verdict.status();
  received_numbers_.Settle(chunk.number);
  ++peer_.counters.chunks_received;
  peer_.counters.payload_bytes_received += chunk.payload_bytes;
  peer_.receive_rate.Arrived(MonotonicNow(), chunk.payload_bytes, rtt_.lowest());
  if (*verdict == ReceiveCredits::Verdict::kDeliver) return Lane::Admission::kDeliver;
  ++peer_.counters.chunks_unwanted;
  return Lane::Admission::kDrop;
}

void Link::OnPayload(const ChunkHeader& header, memory::Buffer payload) {
  shared_.listener.OnChunk(peer_.config.cluster, header, std::move(payload));
}

uint64_t Link::LineBytes(absl::Time now) {
  shared_.tcp.Refresh(now, shared_.times.tick);
  return shared_.tcp.Of(remotes()).bytes_acknowledged;
}

int Link::lanes_up() const {
  return static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(), [](const LaneSlot& slot) {
    return slot.lane != nullptr && slot.lane->up();
  }));
}

uint64_t Link::unacknowledged_chunks() const {
  uint64_t chunks = 0;
  for (const LaneSlot& slot : lanes_) {
    if (slot.lane != nullptr) chunks += slot.lane->unacknowledged_chunks();
  }
  return chunks;
}

uint64_t Link::unacknowledged_bytes() const {
  uint64_t bytes = 0;
  for (const LaneSlot& slot : lanes_) {
    if (slot.lane != nullptr) bytes += slot.lane->unacknowledged_bytes();
  }
  return bytes;
}

std::set<std::string> Link::remotes() const {
  std::set<std::string> remotes = {info_.remote};
  for (const LaneSlot& slot : lanes_) {
    if (slot.lane != nullptr && slot.lane->up()) remotes.insert(slot.lane->remote());
  }
  return remotes;
}

bool Link::idle() const {
  return run_messages_.empty() && control_write_at_ == absl::InfiniteFuture() &&
         unacknowledged_chunks() == 0;
}

}  // namespace causeway::transport
