// What the members of a run measure of their links and trainers, as the leader's planner takes it.
// Plain data.
#ifndef CAUSEWAY_DAEMON_PLANNING_MEASUREMENTS_H_
#define CAUSEWAY_DAEMON_PLANNING_MEASUREMENTS_H_

#include <cstdint>
#include <map>

#include "daemon/engine/ids.h"

namespace causeway::planning {

// Beyond these a measurement is nonsense and refused.
inline constexpr double kBytesPerSecondMax = 1e13;
inline constexpr double kSecondsMax = 1e6;

// From one member to one peer. 0: not measured.
struct LinkRate {
  double send_bytes_per_second = 0;
  double receive_bytes_per_second = 0;
  double rtt_seconds = 0;

  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

// By one member, in its own words.
struct MemberReport {
  std::map<engine::ClusterId, LinkRate> links;  // to every peer that it has a link to
  double step_seconds = 0;        // one local step of its trainer, without waiting; 0: not known
  double exchange_seconds = 0;    // newest committed round, submission to commit; slowest fragment
  engine::RoundNumber round = 0;  // that it speaks of

  friend bool operator==(const MemberReport&, const MemberReport&) = default;
};

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_MEASUREMENTS_H_
