#include "daemon/observe/rate_limiter.h"

#include <algorithm>

namespace causeway::observe {

RateLimiter::Bucket& RateLimiter::BucketOf(std::string_view event, int64_t now_ms) {
  auto found = buckets_.find(event);
  if (found == buckets_.end() && buckets_.size() >= kLimitedEventsMax) {
    event = "other";
    found = buckets_.find(event);
  }
  if (found != buckets_.end()) return found->second;
  return buckets_.emplace(event, Bucket{static_cast<double>(burst_), now_ms}).first->second;
}

bool RateLimiter::Pass(std::string_view event, int64_t now_ms, uint64_t* suppressed) {
  Bucket& bucket = BucketOf(event, now_ms);
  const double elapsed_s =
      static_cast<double>(std::max<int64_t>(now_ms - bucket.updated_ms, 0)) / 1e3;
  bucket.tokens = std::min<double>(burst_, bucket.tokens + elapsed_s * per_second_);
  bucket.updated_ms = now_ms;
  if (bucket.tokens < 1) {
    ++bucket.suppressed;
    return false;
  }
  bucket.tokens -= 1;
  *suppressed = std::exchange(bucket.suppressed, 0);
  return true;
}

std::vector<std::pair<std::string, uint64_t>> RateLimiter::Unreported() const {
  std::vector<std::pair<std::string, uint64_t>> events;
  for (const auto& [event, bucket] : buckets_) {
    if (bucket.suppressed > 0) events.emplace_back(event, bucket.suppressed);
  }
  return events;
}

}  // namespace causeway::observe
