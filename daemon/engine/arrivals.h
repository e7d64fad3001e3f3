// How long contributions of a round lie apart, as observed: what a deadline has to allow for.
//
// Confined to the engine. Only rounds for which everybody came are noted, so that a cluster that is
// always too late does not make the others wait longer and longer.
#ifndef CAUSEWAY_DAEMON_ENGINE_ARRIVALS_H_
#define CAUSEWAY_DAEMON_ENGINE_ARRIVALS_H_

#include <algorithm>
#include <array>
#include <cstddef>

#include "daemon/engine/ids.h"

namespace causeway::engine {

inline constexpr size_t kArrivalsKept = 8;
inline constexpr Time kGraceFactor = 2;     // times the longest wait of those rounds
inline constexpr Time kGraceGrowthMax = 8;  // times the configured grace at most

class Arrivals {
 public:
  // From a round's first contribution to its last.
  void Note(Time spread) {
    spreads_[next_] = spread;
    next_ = (next_ + 1) % kArrivalsKept;
  }
  Time Grace(Time least) const {
    const Time longest = *std::max_element(spreads_.begin(), spreads_.end());
    return std::clamp(kGraceFactor * longest, least, kGraceGrowthMax * least);
  }

 private:
  std::array<Time, kArrivalsKept> spreads_{};
  size_t next_ = 0;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_ARRIVALS_H_
