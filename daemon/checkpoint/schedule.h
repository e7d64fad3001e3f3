// When a fragment's checkpoint is due: after so many rounds or so much time since the newest one on
// disk, whichever comes first; after a failure not before a pause. Pure; the caller brings the
// time.
#ifndef CAUSEWAY_DAEMON_CHECKPOINT_SCHEDULE_H_
#define CAUSEWAY_DAEMON_CHECKPOINT_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace causeway::checkpoint {

struct Limits {
  int64_t rounds = 0;       // 0: no bound by rounds
  int64_t interval_us = 0;  // 0: no bound by time
  bool enabled() const { return rounds > 0 || interval_us > 0; }
};

inline constexpr int64_t kRetryUs = 5'000'000;  // after a failure

class Schedule {
 public:
  explicit Schedule(Limits limits) : limits_(limits) {}

  // A value that is not on disk is here since `now`.
  void OnChange(int64_t now_us) {
    ++changes_;
    if (!changed_us_) changed_us_ = now_us;
  }
  // Everything up to here is being written.
  void OnBegun() {
    changes_ = 0;
    changed_us_.reset();
  }
  // It was not: as if nothing had been begun.
  void OnFailed(int64_t now_us) {
    OnChange(now_us);
    not_before_us_ = now_us + kRetryUs;
  }
  bool dirty() const { return changed_us_.has_value(); }
  // When it is due; nullopt: nothing to write. `now`: for a bound that is reached already.
  std::optional<int64_t> Due(int64_t now_us) const {
    if (!dirty() || !limits_.enabled()) return std::nullopt;
    int64_t due = INT64_MAX;
    if (limits_.interval_us > 0) due = *changed_us_ + limits_.interval_us;
    if (limits_.rounds > 0 && changes_ >= limits_.rounds) due = std::min(due, now_us);
    if (due == INT64_MAX) return std::nullopt;
    return std::max(due, not_before_us_);
  }

 private:
  Limits limits_;
  int64_t changes_ = 0;
  std::optional<int64_t> changed_us_;
  int64_t not_before_us_ = 0;
};

}  // namespace causeway::checkpoint

#endif  // CAUSEWAY_DAEMON_CHECKPOINT_SCHEDULE_H_
