#include "client/shim/waiting.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace causeway::client {
namespace {

constexpr int64_t kPollMsMax = 60'000;  // one poll; a longer wait polls again

bool Add(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void Raise(int event_descriptor) {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable already.
  [[maybe_unused]] const ssize_t written = write(event_descriptor, &one, sizeof(one));
}

void Lower(int descriptor) {
  uint64_t count;
  [[maybe_unused]] const ssize_t taken = read(descriptor, &count, sizeof(count));
}

int PollTimeout(const Deadline& deadline) {
  if (deadline.never) return kPollMsMax;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline.at - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, kPollMsMax));
}

}  // namespace

Deadline Deadline::In(int64_t timeout_ms) {
  // Far beyond any training run, and safe from overflow of the clock.
  constexpr int64_t kMsMax = int64_t{1000} * 3600 * 24 * 365 * 10;
  if (timeout_ms < 0) return Deadline{};
  return Deadline{false, Clock::now() + std::chrono::milliseconds(std::min(timeout_ms, kMsMax))};
}

Status Waiting::Open() {
  inner_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  outer_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  unread_event_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!inner_ || !outer_ || !timer_ || !unread_event_ || !Add(inner_.get(), timer_.get()) ||
      !Add(outer_.get(), inner_.get()) || !Add(outer_.get(), unread_event_.get())) {
    return Status(CW_MEMORY, WithErrno("cannot make the descriptors to wait with", errno));
  }
  return Status();
}

Status Waiting::Watch(int socket) {
  ClearTimer();
  if (!Add(inner_.get(), socket)) {
    return Status(CW_MEMORY, WithErrno("cannot watch the gateway's socket", errno));
  }
  return Status();
}

void Waiting::WakeAt(Clock::time_point when) {
  const int64_t ns = std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(when - Clock::now()).count());
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void Waiting::ClearTimer() {
  const itimerspec never{};
  timerfd_settime(timer_.get(), 0, &never, nullptr);
  Lower(timer_.get());
}

void Waiting::SetUnread(bool unread) {
  if (unread == unread_) return;
  unread_ = unread;
  if (unread) {
    Raise(unread_event_.get());
  } else {
    Lower(unread_event_.get());
  }
}

Waiting::Wake Waiting::Wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  pollfd watched[2] = {{inner_.get(), POLLIN, 0}, {event.get(), POLLIN, 0}};
  const nfds_t count = event ? 2 : 1;
  // Without a descriptor of its own this thread is woken by the socket, or looks again soon.
  const int timeout = event ? PollTimeout(deadline) : std::min(PollTimeout(deadline), 100);
  if (event) waiters_.push_back(event.get());
  lock.unlock();
  const int ready = poll(watched, count, timeout);
  const int error_number = errno;
  lock.lock();
  if (event) waiters_.erase(std::find(waiters_.begin(), waiters_.end(), event.get()));
  if (ready < 0 && error_number == EINTR) return Wake::kSignal;
  return ready > 0 ? Wake::kNews : Wake::kTime;
}

void Waiting::WakeOthers() {
  for (int waiter : waiters_) Raise(waiter);
}

void Waiting::Abandon() {
  inner_.Reset();
  outer_.Reset();
  timer_.Reset();
  unread_event_.Reset();
}

}  // namespace causeway::client
