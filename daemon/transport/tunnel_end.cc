#include "daemon/transport/tunnel_end.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/transport/limits.h"
#include "daemon/transport/tcp_sockets.h"

namespace causeway::transport {
namespace {

constexpr char kEndedHere[] = "the connection through the relay ended here";

}  // namespace

TunnelEnd::TunnelEnd(SocketWaiter& waiter, int descriptor, TunnelHelloFrame hello, Ended ended)
    : waiter_(waiter), descriptor_(descriptor), hello_(std::move(hello)), ended_(std::move(ended)) {
  watch_ = waiter_.Add(descriptor_, [this](uint32_t events) { OnSocket(events); });
}

TunnelEnd::~TunnelEnd() { Stop(); }

void TunnelEnd::Stop() {
  over_ = true;
  if (ByteStream* stream = std::exchange(stream_, nullptr); stream != nullptr) stream->Abandon();
  if (descriptor_ < 0) return;
  waiter_.Remove(watch_);
  close(std::exchange(descriptor_, -1));
}

void TunnelEnd::End(const absl::Status& reason) {
  if (over_) return;
  Stop();
  ended_(this, reason);
}

void TunnelEnd::Begin(ByteStream* stream, absl::Time deadline) {
  stream_ = stream;
  stream_->SetHandler(this);
  stream_->SetDeadline(deadline, absl::DeadlineExceededError("the relay does not answer"));
}

void TunnelEnd::OnOpen() {
  stream_->ClearDeadline();
  LimitUnsent(stream_->remote(), kUnsentBytesMax);
  stream_->Write(EncodeTunnelHello(hello_));
}

void TunnelEnd::OnWritten() { ArmSocket(); }

// Reading waits for the stream to take more, writing for the socket.
void TunnelEnd::ArmSocket() {
  if (over_) return;
  const bool read = stream_->writable();
  const bool write = !incoming_.slices.empty();
  if (!read && !write) return;
  waiter_.Arm(watch_, (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u));
}

void TunnelEnd::OnSocket(uint32_t epoll_events) {
  if (over_ || stream_ == nullptr) return;
  if ((epoll_events & EPOLLOUT) != 0) WriteSocket();
  if (over_) return;
  if ((epoll_events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && stream_->writable()) ReadSocket();
  ArmSocket();
}

void TunnelEnd::ReadSocket() {
  std::string bytes(kTunnelReadBytesMax, '\0');
  const ssize_t size = recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    // What was written before still goes out.
    const absl::Status reason = absl::UnavailableError(kEndedHere);
    std::exchange(stream_, nullptr)->Farewell(std::nullopt, reason);
    End(reason);
    return;
  }
  bytes.resize(static_cast<size_t>(size));
  stream_->Write(EncodeTunnelData(std::move(bytes)));
}

void TunnelEnd::OnRead(const grpc::ByteBuffer& frame) {
  absl::StatusOr<TunnelData> data = DecodeTunnelData(frame);
  if (!data.ok()) {
    End(data.status());
    return;
  }
  incoming_ = std::move(*data);
  next_slice_ = 0;
  slice_offset_ = incoming_.skip;
  stream_->HoldReads(true);
  WriteSocket();
  ArmSocket();
}

void TunnelEnd::WriteSocket() {
  while (next_slice_ < incoming_.slices.size()) {
    const grpc::Slice& slice = incoming_.slices[next_slice_];
    if (slice_offset_ >= slice.size()) {
      slice_offset_ -= slice.size();
      ++next_slice_;
      continue;
    }
    const ssize_t size = send(descriptor_, slice.begin() + slice_offset_,
                              slice.size() - slice_offset_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < 0) {
      End(absl::UnavailableError(kEndedHere));
      return;
    }
    slice_offset_ += static_cast<size_t>(size);
  }
  if (std::exchange(incoming_, {}).slices.empty()) return;
  stream_->HoldReads(false);
}

void TunnelEnd::OnClosed(const absl::Status& reason) {
  stream_ = nullptr;
  End(reason);
}

}  // namespace causeway::transport
