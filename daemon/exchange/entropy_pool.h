// The lossless stage's workspaces, lent to tasks on workers: as many as tasks ever run at once,
// kept for reuse; where packed chunks go; and what packing them won, by codec. Any thread.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_
#define CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_

#include <cstddef>
#include <map>
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

  // What the line carries now, and the cores that may pack.
  void SetSite(const compression::PackingSite& site) {
    absl::MutexLock lock(&mutex_);
    site_ = site;
  }
  compression::PackingSite site() const {
    absl::MutexLock lock(&mutex_);
    return site_;
  }

  // A chunk of so many bytes is sent as so many.
  void Count(compression::CodecKind codec, size_t plain, size_t sent) {
    absl::MutexLock lock(&mutex_);
    Bytes& bytes = bytes_[codec];
    bytes.plain += static_cast<double>(plain);
    bytes.sent += static_cast<double>(sent);
    if (bytes.plain < kBytesKept) return;
    bytes.plain /= 2;  // what was lately counts more
    bytes.sent /= 2;
  }
  // Plain bytes for each byte sent.
  std::map<compression::CodecKind, double> Ratios() const {
    absl::MutexLock lock(&mutex_);
    std::map<compression::CodecKind, double> ratios;
    for (const auto& [codec, bytes] : bytes_) ratios[codec] = bytes.plain / bytes.sent;
    return ratios;
  }

 private:
  static constexpr double kBytesKept = 64 << 20;
  struct Bytes {
    double plain = 0;
    double sent = 0;
  };

  std::unique_ptr<compression::EntropyWorkspace> Take() {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return std::make_unique<compression::EntropyWorkspace>();
    std::unique_ptr<compression::EntropyWorkspace> out = std::move(free_.back());
    free_.pop_back();
    return out;
  }

  mutable absl::Mutex mutex_;
  compression::PackingSite site_ ABSL_GUARDED_BY(mutex_);
  std::map<compression::CodecKind, Bytes> bytes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<compression::EntropyWorkspace>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_ENTROPY_POOL_H_
