// What the daemon tells the service manager (sd_notify) and the watchdog that proves its loops
// alive.
//
// Threads: Notifier from any thread. Watchdog owns one thread. Without a service manager
// ($NOTIFY_SOCKET unset) every call does nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::notify {

class Notifier {
 public:
  void Ready(std::string_view status);     // once listening
  void Status(std::string_view status);    // one line for `systemctl status`
  void Reloading();                        // until Ready again
  void Stopping(std::string_view status);  // the drain begins
  // Draining takes longer: the manager's stop time-out begins again with this much.
  void ExtendTimeout(std::chrono::microseconds more);
  void Alive();  // WATCHDOG=1
};

// A loop's sign of life: the loop calls Beat() on every turn, and turns at least every Watchdog
// interval / 4 (a timer does it when nothing else happens).
class Heartbeat {
 public:
  explicit Heartbeat(std::string name) : name_(std::move(name)) {}
  void Beat() { count_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  std::atomic<uint64_t> count_{0};
};

// The interval that the service manager wants ($WATCHDOG_USEC); zero: no watchdog wanted.
std::chrono::microseconds WatchdogInterval();

// Looks every interval / 3 whether each heartbeat moved since the last look, and only then tells
// the manager. A loop that stands still is named to on_stalled once per standstill; the manager
// kills the process when the standstill lasts as long as its interval.
class Watchdog {
 public:
  // `heartbeats` and `notifier` must outlive it. An interval of zero starts no thread.
  Watchdog(std::chrono::microseconds interval, std::vector<const Heartbeat*> heartbeats,
           Notifier& notifier, std::function<void(const std::string& name)> on_stalled);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::notify
