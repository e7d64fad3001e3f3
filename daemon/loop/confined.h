// An assertion that a class is used by one thread only: the first that calls Check.
//
// Cheap enough to stay on. Does not protect anything: it turns a misuse into a stop at the place of
// the misuse. Detach before handing the owner to another thread.
#ifndef CAUSEWAY_DAEMON_LOOP_CONFINED_H_
#define CAUSEWAY_DAEMON_LOOP_CONFINED_H_

#include <atomic>
#include <cassert>
#include <thread>

namespace causeway::loop {

class Confined {
 public:
  void Check() const {
    std::thread::id none;
    const std::thread::id self = std::this_thread::get_id();
    const bool mine = owner_.compare_exchange_strong(none, self) || none == self;
    assert(mine && "used from a second thread");
    (void)mine;
  }
  void Detach() { owner_.store(std::thread::id()); }

 private:
  mutable std::atomic<std::thread::id> owner_{};
};

}  // namespace causeway::loop

#endif  // CAUSEWAY_DAEMON_LOOP_CONFINED_H_
