#include "client/shim/announcer.h"

#include <utility>

namespace causeway::client {

Announcer::Announcer(std::shared_ptr<cuda::Device> device, Told told)
    : device_(std::move(device)), told_(std::move(told)), thread_([this] { Run(); }) {}

Announcer::~Announcer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Announcer::Add(uint64_t op, std::shared_ptr<cuda::Mark> mark) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    copying_.push_back({op, std::move(mark)});
  }
  changed_.notify_all();
}

void Announcer::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !copying_.empty(); });
    if (stop_) return;
    Copying next = std::move(copying_.front());
    copying_.pop_front();
    lock.unlock();
    Status status = device_->AwaitCopied(*next.mark);
    next.mark.reset();
    told_(next.op, std::move(status));
    lock.lock();
  }
}

}  // namespace causeway::client
