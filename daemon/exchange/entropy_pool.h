// The lossless stage's workspaces, lent to tasks on workers: as many as tasks ever run at once,
// kept for reuse. Any thread.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_
#define CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "compression/entropy.h"

namespace causeway::exchange {

class EntropyPool {
 public:
  // Runs `use(workspace)` with one that nobody else has meanwhile.
  template <typename Use>
  auto With(Use use) {
    std::unique_ptr<compression::EntropyWorkspace> workspace = Take();
    auto result = use(workspace.get());
    absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(workspace));
    return result;
  }

 private:
  std::unique_ptr<compression::EntropyWorkspace> Take() {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return std::make_unique<compression::EntropyWorkspace>();
    std::unique_ptr<compression::EntropyWorkspace> out = std::move(free_.back());
    free_.pop_back();
    return out;
  }

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<compression::EntropyWorkspace>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_
