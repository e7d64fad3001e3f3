// The event loop. See loop.h.
//
// Watches are found by an id that is never reused, carried in the epoll event: an event that was
// fetched before its watch was removed finds nothing and is ignored, even when the descriptor's
// number is in use again. Rejected: a timerfd per timer (a system call each); the next due time
// bounds epoll_wait instead.
#include "daemon/loop/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "daemon/loop/confined.h"
#include "daemon/loop/descriptor.h"

namespace causeway::loop {
namespace {

constexpr int kEventsMax = 64;     // fetched a turn
constexpr WatchId kWakeWatch = 0;  // the inbox's eventfd
constexpr int64_t kLongestWaitUs = int64_t{3600} * 1'000'000;

absl::Status SystemError(int error, absl::string_view what) {
  return absl::InternalError(absl::StrCat("event loop: ", what, ": ", strerror(error)));
}

}  // namespace

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

class Loop::State {
 public:
  struct WatchEntry {
    int descriptor;
    Ready ready;
  };
  struct SignalEntry {
    Descriptor descriptor;
    WatchId watch;
  };

  State(Descriptor epoll, Descriptor wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  void Wake() {
    const uint64_t one = 1;
    // EAGAIN: the counter is full, so the loop is awake anyway.
    while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || inbox_.size() < kPostedMax;
  }

  bool Enqueue(Function function) {
    const bool inside = running_thread_.load() == std::this_thread::get_id();
    {
      absl::MutexLock lock(&mutex_);
      if (!inside) mutex_.Await(absl::Condition(this, &State::HasRoom));
      if (closed_) return false;
      inbox_.push_back(std::move(function));
      if (inbox_.size() != 1) return true;  // whoever made it non-empty has woken the loop
    }
    Wake();
    return true;
  }

  void RunInbox() {
    std::vector<Function> functions;
    {
      absl::MutexLock lock(&mutex_);
      functions.swap(inbox_);
    }
    for (Function& function : functions) function();
  }

  void DrainWake() {
    uint64_t count;
    while (read(wake_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
    }
  }

  void RunTimers() {
    const int64_t now = Now();
    // Timers that callbacks add come in a later turn, so that one cannot starve the descriptors.
    const TimerId newest = next_timer_;
    while (!timers_.empty()) {
      auto first = timers_.begin();
      if (first->first.first > now || first->first.second >= newest) break;
      Function function = std::move(first->second);
      due_.erase(first->first.second);
      timers_.erase(first);
      function();
    }
  }

  int WaitMs() const {
    if (timers_.empty()) return -1;
    const int64_t left = timers_.begin()->first.first - Now();
    if (left <= 0) return 0;
    return static_cast<int>((std::min(left, kLongestWaitUs) + 999) / 1000);
  }

  void Turn() {
    epoll_event events[kEventsMax];
    const int count = epoll_wait(epoll_.get(), events, kEventsMax, WaitMs());
    assert(count >= 0 || errno == EINTR);
    turns_.fetch_add(1, std::memory_order_relaxed);
    RunTimers();
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kWakeWatch) {
        DrainWake();
        RunInbox();
        continue;
      }
      auto found = watches_.find(events[i].data.u64);
      if (found == watches_.end()) continue;
      const std::shared_ptr<WatchEntry> entry = found->second;  // it may remove itself
      entry->ready(events[i].events);
    }
  }

  Confined confined_;
  Descriptor epoll_;
  Descriptor wake_;
  std::atomic<bool> stop_{false};
  std::atomic<std::thread::id> running_thread_{};
  std::atomic<uint64_t> turns_{0};

  // shared: a callback that removes its own watch must outlive the removal.
  std::unordered_map<WatchId, std::shared_ptr<WatchEntry>> watches_;
  WatchId next_watch_ = kWakeWatch + 1;
  std::map<std::pair<int64_t, TimerId>, Function> timers_;
  std::unordered_map<TimerId, int64_t> due_;
  TimerId next_timer_ = 1;
  std::vector<SignalEntry> signals_;

  absl::Mutex mutex_;
  std::vector<Function> inbox_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

Loop::Loop(std::unique_ptr<State> state) : state_(std::move(state)) {}
Loop::~Loop() = default;

absl::StatusOr<std::unique_ptr<Loop>> Loop::Create() {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) return SystemError(errno, "epoll_create1");
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return SystemError(errno, "eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeWatch;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return SystemError(errno, "epoll_ctl");
  }
  return std::unique_ptr<Loop>(
      new Loop(std::make_unique<State>(std::move(epoll), std::move(wake))));
}

void Loop::Run() {
  State& state = *state_;
  state.confined_.Detach();
  state.confined_.Check();
  state.running_thread_.store(std::this_thread::get_id());
  while (!state.stop_.load()) state.Turn();
  state.RunInbox();
  state.stop_.store(false);
  state.running_thread_.store(std::thread::id());
  state.confined_.Detach();
}

void Loop::Stop() {
  state_->stop_.store(true);
  state_->Wake();
}

bool Loop::Post(Function function) { return state_->Enqueue(std::move(function)); }

void Loop::Close() {
  absl::MutexLock lock(&state_->mutex_);
  state_->closed_ = true;
}

TimerId Loop::At(int64_t when_us, Function function) {
  state_->confined_.Check();
  const TimerId id = state_->next_timer_++;
  state_->timers_.emplace(std::make_pair(when_us, id), std::move(function));
  state_->due_.emplace(id, when_us);
  return id;
}

void Loop::Cancel(TimerId timer) {
  state_->confined_.Check();
  auto found = state_->due_.find(timer);
  if (found == state_->due_.end()) return;
  state_->timers_.erase({found->second, timer});
  state_->due_.erase(found);
}

absl::StatusOr<WatchId> Loop::Watch(int descriptor, uint32_t epoll_events, Ready ready) {
  state_->confined_.Check();
  const WatchId id = state_->next_watch_;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = id;
  if (epoll_ctl(state_->epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return SystemError(errno, absl::StrCat("watching descriptor ", descriptor));
  }
  ++state_->next_watch_;
  state_->watches_.emplace(
      id, std::make_shared<State::WatchEntry>(State::WatchEntry{descriptor, std::move(ready)}));
  return id;
}

absl::Status Loop::Change(WatchId watch, uint32_t epoll_events) {
  state_->confined_.Check();
  auto found = state_->watches_.find(watch);
  assert(found != state_->watches_.end() && "no such watch");
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = watch;
  const int descriptor = found->second->descriptor;
  if (epoll_ctl(state_->epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) != 0) {
    return SystemError(errno, absl::StrCat("changing the watch of descriptor ", descriptor));
  }
  return absl::OkStatus();
}

void Loop::Remove(WatchId watch) {
  state_->confined_.Check();
  auto found = state_->watches_.find(watch);
  if (found == state_->watches_.end()) return;
  // Fails only for a descriptor that was closed first, which the contract forbids.
  const int result =
      epoll_ctl(state_->epoll_.get(), EPOLL_CTL_DEL, found->second->descriptor, nullptr);
  assert(result == 0);
  (void)result;
  state_->watches_.erase(found);
}

absl::Status Loop::WatchSignal(int signal_number, Function function) {
  state_->confined_.Check();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) return SystemError(error, absl::StrCat("blocking signal ", signal_number));
  Descriptor descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (descriptor.get() < 0) return SystemError(errno, "signalfd");
  const int number = descriptor.get();
  absl::StatusOr<WatchId> watch =
      Watch(number, EPOLLIN, [number, function = std::move(function)](uint32_t) {
        signalfd_siginfo info;
        while (read(number, &info, sizeof(info)) == sizeof(info)) function();
      });
  if (!watch.ok()) return watch.status();
  state_->signals_.push_back({std::move(descriptor), *watch});
  return absl::OkStatus();
}

uint64_t Loop::turns() const { return state_->turns_.load(std::memory_order_relaxed); }

}  // namespace causeway::loop
