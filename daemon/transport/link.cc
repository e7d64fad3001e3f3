// The control stream once it is up: heartbeats, credits, run messages, the end. link_hello.cc has
// how it begins, link_lanes.cc the lanes.
#include "daemon/transport/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/frames.h"
#include "daemon/transport/grpc_status.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

// The first heartbeats are answered at once, so that both sides know the round-trip time early.
constexpr int kEagerHeartbeats = 4;

// How old TCP's own numbers may be for StallWatch.
constexpr absl::Duration kStallAge = absl::Milliseconds(100);

absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

}  // namespace

Link::Link(Shared& shared, Owner& owner, PeerRecord& peer)
    : shared_(shared), owner_(owner), peer_(peer), received_numbers_(kChunksInFlightMax) {}

Link::~Link() {
  if (stream_ != nullptr) stream_->Abandon();
}

void Link::OnOpen() { PumpControl(); }

void Link::OnWritten() {
  control_write_at_ = absl::InfiniteFuture();
  PumpControl();
}

void Link::PumpControl() {
  if (ended_ || stream_ == nullptr || !stream_->writable()) return;
  std::optional<grpc::ByteBuffer> frame = NextControlFrame();
  if (!frame.has_value()) return;
  control_write_at_ = MonotonicNow();
  stream_->Write(*frame, ControlWaits());
}

// Whether NextControlFrame has another one.
bool Link::ControlWaits() const {
  return up_ && (heartbeat_due_ || lane_wish_due_ || !tunnel_offers_.empty() ||
                 !grants_due_.empty() || !run_messages_.empty());
}

std::optional<grpc::ByteBuffer> Link::NextControlFrame() {
  wan::v1::ControlFrame frame;
  if (hello_due_) {
    SayHello(*frame.mutable_hello());
    return EncodeControl(frame);
  }
  if (!up_) return std::nullopt;
  if (heartbeat_due_) return Heartbeat(MonotonicNow());
  if (lane_wish_due_) {
    lane_wish_due_ = false;
    frame.mutable_lanes()->set_wanted(static_cast<uint32_t>(peer_.lanes.wanted()));
    return EncodeControl(frame);
  }
  if (!tunnel_offers_.empty()) {
    frame.mutable_tunnel()->set_tunnel(tunnel_offers_.front().first);
    frame.mutable_tunnel()->set_from(tunnel_offers_.front().second);
    tunnel_offers_.pop_front();
    return EncodeControl(frame);
  }
  if (!grants_due_.empty()) {
    auto grant = grants_due_.begin();
    frame.mutable_credit()->set_run(grant->first);
    frame.mutable_credit()->set_granted_bytes(grant->second);
    grants_due_.erase(grant);
    return EncodeControl(frame);
  }
  if (run_messages_.empty()) return std::nullopt;
  grpc::ByteBuffer message = std::move(run_messages_.front());
  run_messages_.pop_front();
  ++peer_.counters.messages_sent;
  owner_.OnControlSent(message.Length());
  return message;
}

grpc::ByteBuffer Link::Heartbeat(absl::Time now) {
  heartbeat_due_ = false;
  heartbeat_at_ = now;
  wan::v1::ControlFrame frame;
  wan::v1::Heartbeat& heartbeat = *frame.mutable_heartbeat();
  heartbeat.set_sequence(rtt_.Sent(now));
  heartbeat.set_echo(heartbeat_received_);
  if (heartbeat_received_ != 0) {
    heartbeat.set_echo_delay_us(
        static_cast<uint64_t>(absl::ToInt64Microseconds(now - heartbeat_received_at_)));
  }
  return EncodeControl(frame);
}

void Link::OnRead(const grpc::ByteBuffer& buffer) {
  OnReceived();
  if (ended_) return;
  absl::StatusOr<wan::v1::ControlFrame> frame = DecodeControl(buffer);
  if (!frame.ok()) {
    OnViolation(frame.status());
  } else if (frame->has_hello()) {
    OnHello(frame->hello());
  } else if (!up_) {
    OnViolation(absl::FailedPreconditionError("a frame before the hello"));
  } else {
    OnFrame(*frame);
  }
}

void Link::OnFrame(wan::v1::ControlFrame& frame) {
  switch (frame.body_case()) {
    case wan::v1::ControlFrame::kRun:
      if (frame.run().run().empty() || frame.run().run().size() > kNameBytesMax) {
        OnViolation(
            absl::InvalidArgumentError("a run message without a run, or with too long a name"));
        return;
      }
      ++peer_.counters.messages_received;
      shared_.listener.OnRunMessage(peer_.config.cluster, std::move(*frame.mutable_run()));
      return;
    case wan::v1::ControlFrame::kCredit:
      OnCredit(frame.credit());
      return;
    case wan::v1::ControlFrame::kLanes:
      OnLaneWish(frame.lanes().wanted());
      return;
    case wan::v1::ControlFrame::kTunnel:
      owner_.OnTunnelOffer(frame.tunnel().tunnel(), frame.tunnel().from());
      return;
    case wan::v1::ControlFrame::kHeartbeat:
      OnHeartbeat(frame.heartbeat(), MonotonicNow());
      return;
    case wan::v1::ControlFrame::kGoodbye: {
      const auto code =
          frame.goodbye().replaced() ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable;
      const std::string reason = PrintableText(frame.goodbye().reason());
      EndWith(absl::Status(code, absl::StrCat("the peer said goodbye: ", reason)),
              Farewell::kSilent);
      return;
    }
    default:
      return;  // a kind that a newer minor version added
  }
}

void Link::OnHeartbeat(const wan::v1::Heartbeat& heartbeat, absl::Time now) {
  if (heartbeat.sequence() <= heartbeat_received_) {
    OnViolation(absl::InvalidArgumentError("heartbeats out of order"));
    return;
  }
  heartbeat_received_ = heartbeat.sequence();
  heartbeat_received_at_ = now;
  const uint64_t delay_us = std::min<uint64_t>(heartbeat.echo_delay_us(), uint64_t{1} << 50);
  rtt_.Echo(now, heartbeat.echo(), absl::Microseconds(static_cast<int64_t>(delay_us)));
  if (heartbeats_answered_at_once_ < kEagerHeartbeats) {
    ++heartbeats_answered_at_once_;
    heartbeat_due_ = true;
    PumpControl();
  }
}

void Link::OnCredit(const wan::v1::Credit& credit) {
  if (credit.run().empty() || credit.run().size() > kNameBytesMax) {
    OnViolation(absl::InvalidArgumentError("credit without a run, or with too long a name"));
  } else if (credit.granted_bytes() > uint64_t{1} << 60) {
    OnViolation(absl::InvalidArgumentError("credit beyond all measure"));
  } else if (!peer_.queue.Grant(credit.run(), credit.granted_bytes())) {
    OnViolation(absl::ResourceExhaustedError(
        absl::StrCat("credit for more than ", kCreditRunsMax, " runs on one link")));
  } else {
    PumpLanes();
  }
}

void Link::OnReceived() {
  frame_at_ = MonotonicNow();
  tcp_received_.reset();
  Heard(frame_at_);
}

void Link::Heard(absl::Time now) {
  received_at_ = now;
  if (!up_ || now - progress_reported_at_ < shared_.times.progress) return;
  progress_reported_at_ = now;
  shared_.listener.OnProgress(peer_.config.cluster);
}

void Link::SendRunMessage(grpc::ByteBuffer frame) {
  // A heartbeat that would be due soon rides along: a packet of its own is longer than it.
  if (up_ && MonotonicNow() - heartbeat_at_ >= shared_.times.heartbeat / 2) heartbeat_due_ = true;
  run_messages_.push_back(std::move(frame));
  PumpControl();
}

void Link::SendTunnelOffer(uint64_t tunnel, const std::string& from) {
  tunnel_offers_.emplace_back(tunnel, from);
  PumpControl();
}

void Link::SendGrants(bool all) {
  if (!up_) return;
  for (const ReceiveCredits::Grant& grant : peer_.credits.TakeGrants(all, MonotonicNow())) {
    grants_due_[grant.run] = grant.total_bytes;
  }
  PumpControl();
}

void Link::Tick(absl::Time now) {
  // Silence counts only while this process was there to listen: after a pause of our own (a stopped
  // process, a starved machine) the peer gets the time back.
  const absl::Duration gap = now - ticked_at_;
  ticked_at_ = now;
  if (gap > shared_.times.heartbeat) {
    received_at_ += gap;
    if (control_write_at_ != absl::InfiniteFuture()) control_write_at_ += gap;
  }
  if (!up_) return;
  if (now - frame_at_ > 2 * shared_.times.heartbeat && BytesArrive(now)) Heard(now);
  if (silent(now) > shared_.times.peer_timeout) {
    End(absl::DeadlineExceededError(
        absl::StrCat("nothing was received from cluster ", peer_.config.cluster, " for ",
                     absl::FormatDuration(shared_.times.peer_timeout))));
    return;
  }
  if (now - control_write_at_ > shared_.times.peer_timeout) {
    End(absl::DeadlineExceededError(
        absl::StrCat("cluster ", peer_.config.cluster, " took nothing from the control stream for ",
                     absl::FormatDuration(shared_.times.peer_timeout))));
    return;
  }
  if (now - heartbeat_at_ >= shared_.times.heartbeat_alone) heartbeat_due_ = true;
  SendGrants(/*all=*/true);
  TickLanes(now, gap > shared_.times.heartbeat ? gap : absl::ZeroDuration());
}

// A message that takes the line longer than peer_timeout, and what waits behind it, is no silence.
bool Link::BytesArrive(absl::Time now) {
  shared_.tcp.Refresh(now, shared_.times.progress);
  const uint64_t received = shared_.tcp.Of(remotes()).bytes_received;
  const bool more = tcp_received_.has_value() && received > *tcp_received_;
  tcp_received_ = received;
  return more;
}

bool Link::StandsStill(absl::Time now, int repeats) {
  if (!dialled_here_ || !up_) return false;
  if (now - frame_at_ < StallWatch::kGapMax / 2) {
    stall_.Moved(now);
    return false;
  }
  shared_.tcp.Refresh(now, kStallAge);
  const TcpTotals tcp = shared_.tcp.Of(remotes());
  stall_.SetRepeats(repeats);
  const StallWatch::Verdict verdict =
      stall_.Look(now, {tcp.segments_delivered, tcp.bytes_received, tcp.in_flight, tcp.backing_off,
                        std::max(rtt_.smoothed(), tcp.rtt_in_flight)});
  if (verdict == StallWatch::Verdict::kQuiet && now - heartbeat_at_ > StallWatch::kGapMax) {
    heartbeat_due_ = true;
    PumpControl();
  }
  return verdict == StallWatch::Verdict::kStalled;
}

bool Link::LeavesBehind(absl::Time now) {
  shared_.tcp.Refresh(now, absl::ZeroDuration());
  return shared_.tcp.Of(remotes()).backing_off > 0;
}

void Link::OnViolation(const absl::Status& reason) { End(reason); }

void Link::OnClosed(const absl::Status& reason) {
  stream_ = nullptr;
  EndWith(up_ ? Prefixed("control stream: ", reason) : reason, Farewell::kSilent);
}

void Link::End(const absl::Status& reason) { EndWith(reason, Farewell::kTell); }

void Link::EndWith(const absl::Status& reason, Farewell farewell) {
  if (ended_) return;
  ended_ = true;
  const bool was_up = std::exchange(up_, false);
  EndLanes();
  for (const grpc::ByteBuffer& message : run_messages_) owner_.OnControlSent(message.Length());
  run_messages_.clear();
  if (ByteStream* stream = std::exchange(stream_, nullptr); stream != nullptr) {
    const bool polite = hello_sent_ && (farewell == Farewell::kTell || !dialled_here_);
    if (polite) {
      std::optional<grpc::ByteBuffer> last;
      if (farewell == Farewell::kTell) {
        wan::v1::ControlFrame frame;
        frame.mutable_goodbye()->set_reason(std::string(reason.message().substr(0, kTextBytesMax)));
        frame.mutable_goodbye()->set_replaced(absl::IsAborted(reason));
        last = EncodeControl(frame);
      }
      stream->Farewell(std::move(last), reason);
    } else {
      stream->Abandon();
    }
  }
  owner_.OnLinkEnded(*this, reason, was_up);
}

}  // namespace causeway::transport
