// See connection.h.
#include "daemon/trainers/connection.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <utility>

namespace causeway::trainers {
namespace {

constexpr int kDiscardedMax = 256;  // datagrams; a flood beyond it loses us the courtesy

}  // namespace

Connection::~Connection() {
  if (watch_ != 0) loop_.Remove(watch_);
  if (hello_timer != 0) loop_.Cancel(hello_timer);
}

absl::Status Connection::Start(std::function<void()> on_readable, std::function<void()> on_broken) {
  on_readable_ = std::move(on_readable);
  on_broken_ = std::move(on_broken);
  absl::StatusOr<loop::WatchId> watch =
      loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t events) { OnEvents(events); });
  if (!watch.ok()) return watch.status();
  watch_ = *watch;
  return absl::OkStatus();
}

void Connection::OnEvents(uint32_t events) {
  if (events & EPOLLOUT) Flush();
  // Hang-ups and errors are seen by reading. Last: it may end this connection.
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    const std::function<void()> readable = on_readable_;
    readable();
  }
}

Transfer Connection::Receive(Datagram& datagram) {
  if (broken_ != Break::kNone) return Transfer::kWouldBlock;
  return trainers::Receive(socket_.get(), datagram);
}

void Connection::Send(absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors) {
  if (broken_ != Break::kNone) return;
  if (!queue_.empty()) return Enqueue(bytes, descriptors);
  switch (trainers::Send(socket_.get(), bytes, descriptors)) {
    case Transfer::kDone:
      ++sent_;
      return;
    case Transfer::kWouldBlock:
      return Enqueue(bytes, descriptors);
    case Transfer::kClosed:
      return MarkBroken(Break::kClosed);
  }
}

void Connection::Enqueue(absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors) {
  if (queue_.size() >= kQueuedMessagesMax) return MarkBroken(Break::kSlow);
  Queued queued;
  queued.bytes.assign(bytes.begin(), bytes.end());
  for (int descriptor : descriptors) {
    queued.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!queued.descriptors.back().valid()) return MarkBroken(Break::kSlow);
  }
  queue_.push_back(std::move(queued));
  if (queue_.size() == 1 && !loop_.Change(watch_, EPOLLIN | EPOLLOUT).ok()) {
    MarkBroken(Break::kClosed);
  }
}

void Connection::Flush() {
  while (!queue_.empty() && broken_ == Break::kNone) {
    const Queued& first = queue_.front();
    std::vector<int> descriptors;
    for (const loop::Descriptor& d : first.descriptors) descriptors.push_back(d.get());
    const Transfer result = trainers::Send(socket_.get(), first.bytes, descriptors);
    if (result == Transfer::kWouldBlock) return;
    if (result == Transfer::kClosed) return MarkBroken(Break::kClosed);
    ++sent_;
    queue_.pop_front();
  }
  if (broken_ == Break::kNone && !loop_.Change(watch_, EPOLLIN).ok()) MarkBroken(Break::kClosed);
}

void Connection::DiscardInput() {
  Datagram datagram;
  for (int i = 0; i < kDiscardedMax; ++i) {
    if (trainers::Receive(socket_.get(), datagram) != Transfer::kDone) return;
  }
}

void Connection::MarkBroken(Break reason) {
  if (broken_ != Break::kNone) return;
  broken_ = reason;
  queue_.clear();
  on_broken_();
}

}  // namespace causeway::trainers
