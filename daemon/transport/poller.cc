// Tasks wake the thread with an alarm that is already due, once for however many tasks arrive
// before it runs.
#include "daemon/transport/poller.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"

namespace causeway::transport {

namespace {

// gRPC rounds deadlines up to milliseconds; only the infinite past does not wait.
gpr_timespec Deadline(absl::Time when) {
  if (when == absl::InfinitePast()) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  const auto wait =
      absl::ToChronoNanoseconds(std::max(when - MonotonicNow(), absl::ZeroDuration()));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(wait.count(), GPR_TIMESPAN));
}

}  // namespace

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

Poller::Poller(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)), wake_(*this) {}

Poller::~Poller() { Shutdown(); }

void Poller::Start(absl::Duration period, std::function<void()> tick,
                   std::function<void()> settle) {
  tick_ = std::move(tick);
  settle_ = std::move(settle);
  thread_ = std::thread([this, period] { Run(period); });
}

bool Poller::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  tasks_.push_back(std::move(task));
  if (!awake_) {
    awake_ = true;
    alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), static_cast<Event*>(&wake_));
  }
  return true;
}

void Poller::Wake::OnEvent(bool) { poller_.RunTasks(); }

void Poller::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    awake_ = false;
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void Poller::At(absl::Time when, std::function<void()> task) {
  timers_.emplace(when, std::move(task));
}

void Poller::RunTimers(absl::Time now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::function<void()> task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
    settle_();
  }
}

void Poller::Gather(absl::Duration pause, int connections) {
  pause_ = pause;
  connections_ = connections;
}

// gRPC serves one socket in each look, and a look may end no event; so nothing is left when there
// were as many as there are connections.
absl::Time Poller::GatherUntil(absl::Time wake) {
  if (pause_ == absl::ZeroDuration()) return wake;
  if (looks_left_-- > 0) return absl::InfinitePast();
  looks_left_ = connections_;
  absl::SleepFor(std::min(pause_, std::max(wake - MonotonicNow(), absl::ZeroDuration())));
  return absl::InfinitePast();
}

void Poller::Run(absl::Duration period) {
  absl::Time next_tick = MonotonicNow() + period;
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const absl::Time wake =
        GatherUntil(timers_.empty() ? next_tick : std::min(next_tick, timers_.begin()->first));
    switch (queue_->AsyncNext(&tag, &ok, Deadline(wake))) {
      case grpc::CompletionQueue::SHUTDOWN:
        return;
      case grpc::CompletionQueue::GOT_EVENT:
        looks_left_ = connections_;
        static_cast<Event*>(tag)->OnEvent(ok);
        settle_();
        break;
      case grpc::CompletionQueue::TIMEOUT:
        break;
    }
    const absl::Time now = MonotonicNow();
    RunTimers(now);
    if (now < next_tick) continue;
    next_tick = now + period;
    tick_();
    settle_();
  }
}

void Poller::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
  }
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
    return;
  }
  // Never started: the queue must still be drained before it is destroyed.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

}  // namespace causeway::transport
