// An event loop over epoll: the thread that owns the daemon's control state runs in it.
//
// Everything registered here is called on the loop's thread, one at a time, and must return fast:
// long work belongs on a pool, whose completions come back by Post. Confined to the thread that
// calls Run (before that, to the thread that sets it up), save for the members marked "any thread".
// A callback may add and remove watches and timers, also its own. Does not: own descriptors.
#ifndef CAUSEWAY_DAEMON_LOOP_LOOP_H_
#define CAUSEWAY_DAEMON_LOOP_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::loop {

using TimerId = uint64_t;  // 0: none
using WatchId = uint64_t;  // 0: none

inline constexpr size_t kPostedMax = 1 << 16;  // functions that wait in the loop's inbox

// Microseconds of CLOCK_MONOTONIC, which is the clock of every timer. Any thread.
int64_t Now();

class Loop {
 public:
  using Function = std::function<void()>;
  using Ready = std::function<void(uint32_t epoll_events)>;

  static absl::StatusOr<std::unique_ptr<Loop>> Create();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs callbacks until Stop; functions posted before Stop still run. May be called again
  // afterwards, which is how a test steps through.
  void Run();

  // Any thread. Run returns after the callback in progress and what is in the inbox.
  void Stop();

  // Any thread: runs `function` on the loop's thread, in order of posting. Waits while the inbox
  // holds kPostedMax (never on the loop's own thread, where it is accepted over the limit), so the
  // loop must not wait for a thread that posts. False, and `function` is dropped, only after Close.
  bool Post(Function function);

  // Any thread: from now on Post refuses, and whoever waits in Post returns. For shutting down.
  void Close();

  // `function` runs once, at or after `when_us` (Now()'s clock). The id is never reused.
  TimerId At(int64_t when_us, Function function);
  TimerId After(int64_t delay_us, Function function) {
    return At(Now() + delay_us, std::move(function));
  }
  void Cancel(TimerId timer);  // no-op once it ran

  // `ready` is called with what is ready of `epoll_events` (EPOLLIN, EPOLLOUT; errors and hang-ups
  // always). Level-triggered. Remove the watch before closing the descriptor. One watch a
  // descriptor.
  absl::StatusOr<WatchId> Watch(int descriptor, uint32_t epoll_events, Ready ready);
  absl::Status Change(WatchId watch, uint32_t epoll_events);
  void Remove(WatchId watch);

  // Blocks the signal in the calling thread and handles it in the loop instead. Call it before any
  // other thread starts, so that all inherit the mask.
  absl::Status WatchSignal(int signal_number, Function function);

  // Any thread: grows by one each time around. A watchdog posts a function and looks whether it
  // moved.
  uint64_t turns() const;

 private:
  class State;
  explicit Loop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::loop

#endif  // CAUSEWAY_DAEMON_LOOP_LOOP_H_
