// Token buckets by event id, so that one noisy event cannot drown the log.
//
// Not thread-safe: the logger's lock guards it. Time is the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::observe {

inline constexpr size_t kLimitedEventsMax = 256;  // further event ids share one bucket

class RateLimiter {
 public:
  RateLimiter(int burst, double per_second) : burst_(burst), per_second_(per_second) {}

  // True when a line of this event may pass; then `suppressed` is how many did not since the last
  // one.
  bool Pass(std::string_view event, int64_t now_ms, uint64_t* suppressed);
  // Every event with lines that no later line has accounted for, and their number.
  std::vector<std::pair<std::string, uint64_t>> Unreported() const;

 private:
  struct Bucket {
    double tokens;
    int64_t updated_ms;
    uint64_t suppressed = 0;
  };
  Bucket& BucketOf(std::string_view event, int64_t now_ms);

  const int burst_;
  const double per_second_;
  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace causeway::observe
