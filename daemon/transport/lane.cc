// Acknowledgements are cumulative and lazy: at 1 MiB or at the next tick, ahead of the next chunk.
// They free the sender's memory and prove progress; no round waits for one. Each costs both sides a
// message, so a chunk of a small codec does not get one of its own.
#include "daemon/transport/lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/tcp_sockets.h"

namespace causeway::transport {
namespace {

constexpr uint64_t kAckBytes = 1 << 20;
// More than heartbeats and round messages are in half of `patience`: bulk moves.
constexpr uint64_t kMovesBytes = 16 << 10;
constexpr size_t kBatchBytes = 64 << 10;  // of chunks that share packets
constexpr uint64_t kUnevenShare = 2;      // of the line, against that of other lanes

}  // namespace

Lane::Lane(Shared& shared, Owner& owner, LaneHelloFrame ours, LaneHelloFrame theirs)
    : shared_(shared), owner_(owner), ours_(std::move(ours)), theirs_(std::move(theirs)) {}

Lane::~Lane() { End(); }

void Lane::Begin(ByteStream* stream, bool dialled, absl::Time now) {
  stream_ = stream;
  moved_at_ = now;
  hello_due_ = true;
  stream_->SetHandler(this);
  if (dialled) {
    stream_->SetDeadline(now + shared_.times.hello_timeout,
                         absl::DeadlineExceededError(
                             absl::StrCat("lane ", index(), ": no connection and hello within ",
                                          absl::FormatDuration(shared_.times.hello_timeout))));
    return;
  }
  hello_received_ = true;
  stream_->ClearDeadline();
  Pump();
}

void Lane::OnOpen() { Pump(); }

void Lane::OnWritten() {
  moved_at_ = MonotonicNow();
  if (!up_ && hello_received_ && !hello_due_) {
    Up();
  }
  Pump();
}

void Lane::Up() {
  up_ = true;
  remote_ = stream_->remote();
  LimitUnsent(remote_, kUnsentBytesMax);
  owner_.OnLaneUp(*this);
}

void Lane::Pump() {
  if (ended_ || stream_ == nullptr || !stream_->writable()) return;
  if (hello_due_) {
    hello_due_ = false;
    stream_->Write(ToByteBuffer(EncodeLaneHello(ours_)));
    return;
  }
  if (!up_) return;
  if (ack_due_) {
    ack_due_ = false;
    received_bytes_ = 0;
    acknowledged_ = received_;
    stream_->Write(ToByteBuffer(EncodeChunkAck(received_)));
    return;
  }
  if (unwritten_ == 0 && !Take()) return;
  const OutgoingChunk& sent = unacknowledged_[unacknowledged_.size() - unwritten_];
  const size_t bytes = sent.payload.size();
  // A small chunk shares packets with the next one, which this lane must hold then: what gRPC was
  // told to wait with leaves with the next write only.
  batch_bytes_ += bytes;
  const bool more = batch_bytes_ < kBatchBytes && (unwritten_ > 1 || Take());
  if (!more) batch_bytes_ = 0;
  --unwritten_;
  stream_->Write(
      ToByteBuffer(EncodeChunkHead(sent.sequence, sent.number, sent.header, bytes), sent.payload),
      more);
}

// The next chunk, to be written.
bool Lane::Take() {
  std::optional<OutgoingChunk> chunk = owner_.NextChunk();
  if (!chunk.has_value()) return false;
  if (unacknowledged_.empty()) moved_at_ = MonotonicNow();
  chunk->sequence = next_sequence_++;
  unacknowledged_bytes_ += chunk->payload.size();
  unacknowledged_.push_back(std::move(*chunk));
  ++unwritten_;
  return true;
}

void Lane::Tick(absl::Time now, absl::Duration patience, absl::Duration own_pause) {
  if (ended_) return;
  moved_at_ += own_pause;
  line_seen_at_ += own_pause;
  if (parked_.has_value()) {
    const ReceivedLaneFrame frame = *std::exchange(parked_, std::nullopt);
    Deliver(frame);
    if (ended_) return;
  }
  if (received_ > acknowledged_) ack_due_ = true;
  Pump();
  if (ended_ || !Overdue(now, patience)) return;
  const absl::Status reason = absl::DeadlineExceededError(absl::StrCat(
      "lane ", index(), ": ", unacknowledged_bytes_, " bytes unacknowledged, no progress for ",
      absl::FormatDuration(absl::Trunc(now - moved_at_, absl::Milliseconds(100)))));
  End();
  owner_.OnLaneBroken(*this, reason, true);
}

bool Lane::Overdue(absl::Time now, absl::Duration patience) {
  if (unacknowledged_.empty() || now - moved_at_ <= patience / 2) {
    line_then_.reset();
    return false;
  }
  if (line_then_.has_value() && now - line_seen_at_ < patience / 2) return false;
  const uint64_t line = owner_.LineBytes(now);
  // At first, or after another lane went and its count with it.
  if (!line_then_.has_value() || line < line_seen_) {
    line_then_ = line_seen_ = line;
    line_seen_at_ = now;
    return false;
  }
  const uint64_t share = static_cast<uint64_t>(owner_.lanes_up()) * unacknowledged_bytes_;
  const bool moves = line - line_seen_ >= kMovesBytes;
  if (!moves || line - *line_then_ > kUnevenShare * share) return true;
  line_seen_ = line;
  line_seen_at_ = now;
  return false;
}

void Lane::End() {
  ended_ = true;
  ByteStream* stream = std::exchange(stream_, nullptr);
  if (stream != nullptr) stream->Abandon();
}

std::deque<OutgoingChunk> Lane::TakeUnacknowledged() {
  unacknowledged_bytes_ = 0;
  unwritten_ = 0;
  return std::exchange(unacknowledged_, {});
}

void Lane::OnClosed(const absl::Status& reason) {
  stream_ = nullptr;
  if (ended_) return;
  ended_ = true;
  owner_.OnLaneBroken(*this, reason, false);
}

void Lane::Violation(const absl::Status& reason) {
  owner_.OnViolation(
      absl::Status(reason.code(), absl::StrCat("lane ", index(), ": ", reason.message())));
}

void Lane::OnRead(const grpc::ByteBuffer& buffer) {
  owner_.OnReceived();
  if (ended_) return;
  absl::StatusOr<ReceivedLaneFrame> received = ReceivedLaneFrame::Read(buffer);
  if (!received.ok()) {
    Violation(received.status());
    return;
  }
  if (const auto* hello = std::get_if<LaneHelloFrame>(&received->frame())) {
    OnHello(*hello);
  } else if (!hello_received_) {
    Violation(absl::FailedPreconditionError("a frame before the hello"));
  } else if (const auto* ack = std::get_if<ChunkAckFrame>(&received->frame())) {
    OnAck(ack->sequence);
  } else {
    OnChunk(*received);
  }
}

void Lane::OnHello(const LaneHelloFrame& hello) {
  if (hello_received_) {
    Violation(absl::FailedPreconditionError("a second hello"));
    return;
  }
  if (hello.cluster != theirs_.cluster || hello.incarnation != theirs_.incarnation ||
      hello.link != theirs_.link || hello.lane != theirs_.lane) {
    Violation(absl::FailedPreconditionError("the answer names another link, lane or process"));
    return;
  }
  hello_received_ = true;
  stream_->ClearDeadline();
  if (!up_ && stream_->writable()) {
    Up();
    Pump();
  }
}

void Lane::OnAck(uint64_t sequence) {
  if (const uint64_t sent = next_sequence_ - 1 - unwritten_; sequence > sent) {
    Violation(absl::InvalidArgumentError(
        absl::StrCat("acknowledges chunk ", sequence, ", but only ", sent, " were sent")));
    return;
  }
  moved_at_ = MonotonicNow();
  while (!ended_ && !unacknowledged_.empty() && unacknowledged_.front().sequence <= sequence) {
    const OutgoingChunk chunk = std::move(unacknowledged_.front());
    unacknowledged_.pop_front();
    unacknowledged_bytes_ -= chunk.payload.size();
    acknowledged_any_ = true;
    owner_.OnAcknowledged(chunk);
  }
  if (!ended_) Pump();
}

void Lane::OnChunk(const ReceivedLaneFrame& frame) {
  const auto& chunk = std::get<ChunkFrame>(frame.frame());
  if (chunk.sequence != received_ + 1) {
    Violation(absl::InvalidArgumentError(
        absl::StrCat("chunk ", chunk.sequence, " where ", received_ + 1, " is due")));
    return;
  }
  Deliver(frame);
}

void Lane::Deliver(const ReceivedLaneFrame& frame) {
  const auto& chunk = std::get<ChunkFrame>(frame.frame());
  absl::StatusOr<memory::Buffer> payload = shared_.pool.Allocate(chunk.payload_bytes);
  if (!payload.ok()) {
    // The window promised this memory; somebody else holds it for the moment. The peer waits
    // meanwhile. The chunk is not admitted yet: if this lane breaks now, it comes again on another.
    parked_ = frame;
    stream_->HoldReads(true);
    owner_.OnNoMemory();
    return;
  }
  absl::StatusOr<Admission> admission = owner_.Admit(chunk);
  if (!admission.ok()) {
    Violation(admission.status());
    return;
  }
  if (*admission == Admission::kDrop) {
    payload->Reset();
  } else {
    frame.CopyPayload(chunk, payload->span());
    owner_.OnPayload(chunk.header, std::move(*payload));
  }
  if (ended_) return;
  Received(chunk);
  if (!ended_) stream_->HoldReads(false);
}

void Lane::Received(const ChunkFrame& chunk) {
  received_ = chunk.sequence;
  received_bytes_ += chunk.payload_bytes;
  if (received_bytes_ >= kAckBytes) {
    ack_due_ = true;
    Pump();
  }
}

}  // namespace causeway::transport
