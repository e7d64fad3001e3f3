#include "daemon/notify/notify.h"

#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace causeway::notify {
namespace {

constexpr size_t kStatusBytesMax = 512;

// One line: a newline would begin another assignment of the protocol.
std::string OneLine(std::string_view status) {
  std::string line(status.substr(0, kStatusBytesMax));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// Without a manager, or with one that went away, there is nobody to tell.
void Tell(const std::string& state) { (void)sd_notify(0, state.c_str()); }

}  // namespace

void Notifier::Ready(std::string_view status) {
  Tell(absl::StrCat("READY=1\nSTATUS=", OneLine(status)));
}

void Notifier::Status(std::string_view status) { Tell(absl::StrCat("STATUS=", OneLine(status))); }

void Notifier::Reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  Tell(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=",
                    int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000));
}

void Notifier::Stopping(std::string_view status) {
  Tell(absl::StrCat("STOPPING=1\nSTATUS=", OneLine(status)));
}

void Notifier::ExtendTimeout(std::chrono::microseconds more) {
  Tell(absl::StrCat("EXTEND_TIMEOUT_USEC=", more.count()));
}

void Notifier::Alive() { Tell("WATCHDOG=1"); }

std::chrono::microseconds WatchdogInterval() {
  uint64_t interval_us = 0;
  const int wanted = sd_watchdog_enabled(0, &interval_us);
  return std::chrono::microseconds(wanted > 0 ? interval_us : 0);
}

struct Watchdog::State {
  std::chrono::microseconds interval;
  std::vector<const Heartbeat*> heartbeats;
  Notifier& notifier;
  std::function<void(const std::string& name)> on_stalled;
  std::vector<uint64_t> seen;
  std::vector<bool> stalled;
  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::thread thread;

  void Look() {
    bool alive = true;
    for (size_t i = 0; i < heartbeats.size(); ++i) {
      const uint64_t count = heartbeats[i]->count();
      const bool moved = count != std::exchange(seen[i], count);
      if (!moved && !stalled[i]) on_stalled(heartbeats[i]->name());
      stalled[i] = !moved;
      alive = alive && moved;
    }
    if (alive) notifier.Alive();
  }

  void Run() {
    const absl::Duration pause = absl::Microseconds(interval.count()) / 3;
    absl::MutexLock lock(&mutex);
    while (!mutex.AwaitWithTimeout(absl::Condition(&stopping), pause)) Look();
  }
};

Watchdog::Watchdog(std::chrono::microseconds interval, std::vector<const Heartbeat*> heartbeats,
                   Notifier& notifier, std::function<void(const std::string& name)> on_stalled)
    : state_(new State{interval, std::move(heartbeats), notifier, std::move(on_stalled)}) {
  if (interval.count() <= 0) return;
  for (const Heartbeat* heartbeat : state_->heartbeats) state_->seen.push_back(heartbeat->count());
  state_->stalled.resize(state_->heartbeats.size());
  state_->notifier.Alive();
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  if (state_->thread.joinable()) state_->thread.join();
}

}  // namespace causeway::notify
