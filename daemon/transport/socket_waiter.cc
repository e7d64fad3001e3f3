#include "daemon/transport/socket_waiter.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace causeway::transport {

absl::Status SocketWaiter::Start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || stop_ < 0) return absl::ErrnoToStatus(errno, "tunnels: no descriptor left");
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void SocketWaiter::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
  }
  for (int* descriptor : {&epoll_, &stop_}) {
    if (*descriptor >= 0) close(std::exchange(*descriptor, -1));
  }
}

uint64_t SocketWaiter::Add(int descriptor, Ready ready) {
  const uint64_t id = next_id_++;
  sockets_[id] = {descriptor, std::move(ready)};
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = id;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  return id;
}

void SocketWaiter::Arm(uint64_t id, uint32_t epoll_events) {
  auto found = sockets_.find(id);
  if (found == sockets_.end()) return;
  epoll_event event{};
  event.events = epoll_events | EPOLLONESHOT;
  event.data.u64 = id;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, found->second.descriptor, &event);
}

void SocketWaiter::Remove(uint64_t id) {
  auto found = sockets_.find(id);
  if (found == sockets_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.descriptor, nullptr);
  sockets_.erase(found);
}

void SocketWaiter::Run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == 0) return;
      const uint32_t what = events[i].events;
      poller_.Post([this, id, what] {
        auto found = sockets_.find(id);
        if (found == sockets_.end()) return;
        const Ready ready = found->second.ready;  // it may remove itself
        ready(what);
      });
    }
  }
}

}  // namespace causeway::transport
