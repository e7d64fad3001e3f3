// Latch: opened once by one thread, waited for by another. A condition variable rather than
// absl::Notification: thread sanitizers see it.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LATCH_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LATCH_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/transport/poller.h"

namespace causeway::transport {

class Latch {
 public:
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
    opened_.SignalAll();
  }
  // False: not opened within `limit`.
  bool Wait(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    const absl::Time deadline = MonotonicNow() + limit;
    while (!open_) {
      if (opened_.WaitWithTimeout(&mutex_, deadline - MonotonicNow())) return open_;
    }
    return true;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LATCH_H_
