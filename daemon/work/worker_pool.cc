// One queue under one mutex: a task is a chunk of 2^18 elements, tens of microseconds and more, so
// contention on the queue does not show. Work stealing was not needed.
#include "daemon/work/worker_pool.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "compression/vector.h"

namespace causeway::work {
namespace {

int DefaultThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

}  // namespace

WorkerPool::WorkerPool(int threads) {
  const int count = threads > 0 ? threads : DefaultThreads();
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

uint64_t WorkerPool::queued() const {
  absl::MutexLock lock(&mutex_);
  return tasks_.size();
}

void WorkerPool::Run() {
  if (!compression::SubnormalsAreKept()) std::abort();  // guarantee 1 needs gradual underflow
  for (;;) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !tasks_.empty();
      };
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    finished_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace causeway::work
