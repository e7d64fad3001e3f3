// The threads that encode, decode, reduce and hash. Tasks are plain functions; they never block on
// the network or on each other, so the pool cannot deadlock.
//
// Thread: Submit from any thread. A task runs on one of the pool's threads, in submission order
// where one thread is free. Every worker asserts once that denormals are not flushed to zero:
// results must be the same bytes on every machine.
// Memory: the queue is unbounded by itself; its users bound it, because each task holds a buffer of
// a budgeted pool or stands for one chunk of a run.
#ifndef CAUSEWAY_DAEMON_WORK_WORKER_POOL_H_
#define CAUSEWAY_DAEMON_WORK_WORKER_POOL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace causeway::work {

class WorkerPool {
 public:
  // `threads` 0: one per core, at most 8.
  explicit WorkerPool(int threads);
  // Runs what is queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void Submit(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

  int threads() const { return static_cast<int>(threads_.size()); }
  // Tasks finished so far.
  uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }
  uint64_t queued() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();

  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> finished_{0};
  std::vector<std::thread> threads_;
};

}  // namespace causeway::work

#endif  // CAUSEWAY_DAEMON_WORK_WORKER_POOL_H_
