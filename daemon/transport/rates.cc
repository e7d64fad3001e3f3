// The first round trip of a busy time is left out, because acknowledgements of what fills the line
// have not come yet; after that each window of a round trip or more is a sample.
#include "daemon/transport/rates.h"

#include <algorithm>
#include <cmath>

namespace causeway::transport {
namespace {

constexpr absl::Duration kWindowMin = absl::Milliseconds(100);
constexpr double kForgetSeconds = 1;  // of busy time: a sample's weight falls by e
constexpr absl::Duration kStale = absl::Seconds(30);
constexpr absl::Duration kGapMin = absl::Milliseconds(60);
constexpr double kHintConfidence = 0.1;
constexpr double kShortConfidence = 0.25;

}  // namespace

void RateMeter::SetBusy(absl::Time now, bool busy) {
  if (busy == busy_) return;
  busy_ = busy;
  window_bytes_ = 0;
  window_ = absl::ZeroDuration();
  window_begin_ = now;
}

void RateMeter::Moved(absl::Time now, uint64_t bytes, absl::Duration rtt) {
  if (!busy_) return;
  if (window_ == absl::ZeroDuration()) {
    window_ = std::max(rtt, kWindowMin);
    window_begin_ += rtt;
  }
  moved_at_ = now;
  if (now < window_begin_) return;
  if (window_bytes_ == 0) {  // the window begins with an arrival, whose bytes came before it
    window_begin_ = now;
    window_bytes_ = 1;
    return;
  }
  window_bytes_ += bytes;
  const absl::Duration span = now - window_begin_;
  if (span < window_) return;
  Sample(now, static_cast<double>(window_bytes_ - 1) / absl::ToDoubleSeconds(span), span);
  window_begin_ = now;
  window_bytes_ = 1;
}

void RateMeter::Arrived(absl::Time now, uint64_t bytes, absl::Duration rtt) {
  if (now - moved_at_ > std::max(rtt / 2, kGapMin)) SetBusy(now, false);
  SetBusy(now, true);
  moved_at_ = now;
  Moved(now, bytes, rtt);
}

void RateMeter::Hint(absl::Time now, double bytes_per_s) {
  hint_bytes_per_s_ = bytes_per_s;
  hinted_at_ = now;
}

void RateMeter::Sample(absl::Time now, double bytes_per_s, absl::Duration span) {
  const double seconds = absl::ToDoubleSeconds(span);
  if (now - measured_at_ > kStale) busy_seconds_ = 0;
  // As an average at first, then with exponential forgetting.
  const double weight =
      std::max(1 - std::exp(-seconds / kForgetSeconds), seconds / (busy_seconds_ + seconds));
  bytes_per_s_ += weight * (bytes_per_s - bytes_per_s_);
  busy_seconds_ = std::min(busy_seconds_ + seconds, kForgetSeconds);
  measured_at_ = now;
}

DirectionRate RateMeter::Rate(absl::Time now) const {
  if (measured_at_ != absl::InfinitePast()) {
    return {bytes_per_s_, now - measured_at_,
            kShortConfidence + (1 - kShortConfidence) * busy_seconds_ / kForgetSeconds};
  }
  if (hint_bytes_per_s_ > 0) return {hint_bytes_per_s_, now - hinted_at_, kHintConfidence};
  return {};
}

}  // namespace causeway::transport
