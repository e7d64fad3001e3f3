// Rejected: to bound what is unacknowledged over all lanes. Chunks are large against what a slow
// line holds, and a lost packet holds up the acknowledgement of all that follow it on its lane.
#include "daemon/transport/line_pacer.h"

#include <algorithm>
#include <cmath>

namespace causeway::transport {
namespace {

constexpr absl::Duration kWindowMin = absl::Milliseconds(50);
// Over a path this short a queue of a round trip delays nobody, and what is measured is the hosts.
constexpr absl::Duration kNearby = absl::Milliseconds(10);
constexpr absl::Duration kJitter = absl::Milliseconds(2);  // of round trips, without any queue
constexpr double kGrowth = 1.25;  // a window that delivers so much more: the line is not full yet
constexpr int kStillWindows = 3;  // without such growth: it is
constexpr double kProbeGain = 1.25;
constexpr double kDrainGain = 0.75;
constexpr double kFound = 1.1;   // a probe that finds so much more goes on
constexpr double kQueue = 1.25;  // round trips so much longer than the shortest: a queue stands
constexpr double kRoom = 1.1;    // hardly any: more is tried sooner
constexpr double kDrained = 1.05;
constexpr int kProbeWindows = 8;  // long enough for each connection's own probing
constexpr int kDrainWindowsMax = 6;
constexpr double kLess = 0.85;      // of what was let go arrived, so the line was not the limit
constexpr double kDoubt = 0.05;     // of a round trip, at the end of each draining
constexpr int kVerdictWindows = 3;  // of draining; what is measured lags behind
constexpr double kSoon = 12;        // round trips
constexpr int kCruiseWindows = 12;
constexpr int kCruiseWindowsMin = 4;  // between two drains: a queue may be somebody else's
constexpr absl::Duration kStale = absl::Seconds(30);
constexpr double kLossSmoothing = 0.1;
constexpr double kLossy = 0.005;
constexpr double kCalm = 0.0025;

}  // namespace

double LinePacer::bytes_per_s() const {
  if (lossy_ || ends_soon_) return 0;
  switch (phase_) {
    case Phase::kFill:
      return 0;
    case Phase::kCruise:
      return best_;
    case Phase::kProbe:
      return best_ * kProbeGain;
    case Phase::kDrain:
      return best_ * kDrainGain;
  }
  return 0;
}

void LinePacer::Look(absl::Time now, const Sight& sight) {
  if (sight.rtt_min < kNearby) {
    Forget();
    return;
  }
  const bool same = sight.connections == before_.connections &&
                    sight.bytes_delivered >= before_.bytes_delivered &&
                    sight.segments_sent >= before_.segments_sent &&
                    sight.segments_resent >= before_.segments_resent;
  const absl::Duration span = now - begin_;
  if (same && span < std::max(sight.rtt_min, kWindowMin)) return;
  const Sight before = before_;
  before_ = sight;
  begin_ = now;
  ends_soon_ = static_cast<double>(sight.bytes_waiting) <
               kSoon * absl::ToDoubleSeconds(sight.rtt_min) * best_;
  const bool idle = idle_;
  idle_ = false;
  if (idle && phase_ == Phase::kDrain) Begin(Phase::kCruise);  // it is drained
  // After a pause the window has begun before the bytes did.
  if (!same || idle) return;
  if (now - measured_at_ > kStale) {
    Forget();
  }
  measured_at_ = now;
  const auto sent = static_cast<double>(sight.segments_sent - before.segments_sent);
  const auto again = static_cast<double>(sight.segments_resent - before.segments_resent);
  loss_ += kLossSmoothing * (again / std::max(sent, 1.0) - loss_);
  lossy_ = loss_ > (lossy_ ? kCalm : kLossy);
  const auto bytes = static_cast<double>(sight.bytes_delivered - before.bytes_delivered);
  const absl::Duration waited = std::max(sight.rtt - sight.rtt_min - kJitter, absl::ZeroDuration());
  Step({bytes, absl::ToDoubleSeconds(span)}, 1 + absl::FDivDuration(waited, sight.rtt_min));
}

// The best of means: a single window may hold what arrived late, and a lane may stand still for
// some windows (BBR lets each, every ten seconds).
void LinePacer::Remember(const Window& window) {
  newest_[seen_ % kMeanWindows] = window;
  Window sum = window;
  if (seen_ + 1 >= kMeanWindows) {
    sum = {};
    for (const Window& each : newest_) {
      sum.bytes += each.bytes;
      sum.seconds += each.seconds;
    }
  }
  means_[seen_ % kMeansKept] = sum.bytes / sum.seconds;
  ++seen_;
  best_ = *std::max_element(means_.begin(), means_.end());
}

void LinePacer::Forget() {
  means_ = {};
  seen_ = 0;
  others_ = 0;
  best_ = 0;
  Begin(Phase::kFill);
}

void LinePacer::Begin(Phase phase) {
  phase_ = phase;
  windows_ = 0;
  best_before_ = best_;
}

void LinePacer::Drain(double queue) {
  drain_windows_ = std::clamp(static_cast<int>(std::lround((queue - 1) / (1 - kDrainGain))), 1,
                              kDrainWindowsMax);
  drain_from_ = queue;
  Begin(Phase::kDrain);
}

// Draining is over. A queue that did not shorten, although less was sent than the line delivers, is
// not of these connections' making; that is believed for a while.
void LinePacer::EndDrain(const Window& window, double queue) {
  const bool was_less = window.bytes / window.seconds > kLess * bytes_per_s();
  const double expected = (1 - kDrainGain) * windows_;
  others_ = std::max(0.0, others_ - kDoubt);
  if (was_less && queue > kQueue && drain_from_ - queue < expected / 2) others_ += queue - 1;
  Begin(Phase::kCruise);
}

void LinePacer::Step(const Window& window, double seen_queue) {
  Remember(window);
  if (ends_soon_) {
    if (phase_ != Phase::kFill) Begin(Phase::kCruise);
    return;
  }
  others_ = std::min(others_, seen_queue - 1);
  const double queue = seen_queue - others_;
  ++windows_;
  switch (phase_) {
    case Phase::kFill:
      if (best_ > best_before_ * kGrowth) Begin(Phase::kFill);
      if (windows_ >= kStillWindows) Drain(queue);
      return;
    case Phase::kDrain:
      if (queue < kDrained ||
          windows_ >=
              (queue > kQueue ? std::max(drain_windows_, kVerdictWindows) : drain_windows_)) {
        EndDrain(window, queue);
      }
      return;
    case Phase::kCruise:
      if (queue > kQueue && windows_ >= kCruiseWindowsMin) {
        Drain(queue);
      } else if (windows_ >= (queue < kRoom ? kCruiseWindowsMin : kCruiseWindows)) {
        Begin(Phase::kProbe);
      }
      return;
    case Phase::kProbe:
      if (queue > kQueue) {
        Drain(queue);
      } else if (windows_ >= kProbeWindows) {
        Begin(best_ > best_before_ * kFound ? Phase::kProbe : Phase::kCruise);
      }
      return;
  }
}

}  // namespace causeway::transport
