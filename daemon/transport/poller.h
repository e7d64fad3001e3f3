// Poller: the one thread that serves the completion queue. Everything of a transport that has state
// lives on it.
//
// One thread, because two pollers on one queue cost a third more CPU for the same bytes (wake-ups),
// and because confinement needs no locks. Other threads hand it tasks with Post.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_POLLER_H_
#define CAUSEWAY_DAEMON_TRANSPORT_POLLER_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace causeway::transport {

// Now, on a clock that nobody sets. Only differences mean anything.
absl::Time MonotonicNow();

class Poller {
 public:
  // What a completion-queue tag points to.
  class Event {
   public:
    virtual void OnEvent(bool ok) = 0;

   protected:
    ~Event() = default;
  };

  explicit Poller(std::unique_ptr<grpc::CompletionQueue> queue);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  grpc::CompletionQueue* queue() { return queue_.get(); }

  // `tick` runs every `period`; `settle` after every event and tick. Both on the poller thread.
  void Start(absl::Duration period, std::function<void()> tick, std::function<void()> settle);
  // From any thread: runs `task` on the poller thread, in order. False after Shutdown began: it
  // never will.
  bool Post(std::function<void()> task);
  // Runs `task` at or soon after `when`. On the poller thread; never after Shutdown.
  void At(absl::Time when, std::function<void()> task);
  // Ends the thread once the queue is drained. Nothing may be started on the queue any more. Not
  // from the poller.
  void Shutdown();
  // From now on lets what comes add up for `pause` between two looks at the queue, each of which
  // serves all that `connections` have; zero: waits for the next event instead. On the poller
  // thread.
  void Gather(absl::Duration pause, int connections);
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  class Wake final : public Event {
   public:
    explicit Wake(Poller& poller) : poller_(poller) {}
    void OnEvent(bool ok) override;

   private:
    Poller& poller_;
  };

  void Run(absl::Duration period);
  void RunTasks();
  void RunTimers(absl::Time now);
  // Of the queue, when to give up waiting at the latest.
  absl::Time GatherUntil(absl::Time wake);

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::function<void()> tick_;
  std::function<void()> settle_;
  std::multimap<absl::Time, std::function<void()>> timers_;  // of the thread
  Wake wake_;
  absl::Duration pause_;  // of the thread, like the next two
  int connections_ = 0;
  int looks_left_ = 0;  // before the next pause
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool awake_ ABSL_GUARDED_BY(mutex_) = false;  // the alarm is set, or tasks are about to run
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_POLLER_H_
