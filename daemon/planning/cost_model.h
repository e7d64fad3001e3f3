// What an exchange costs over measured lines, and the shares of chunks that make it cheapest
// (cluster i moves 1 + (n - 2) s_i of the data; minimise the slowest line's time).
//
// Model: each cluster has one line, with a rate out and a rate in; all of its peers share it. Paths
// between lines are not modelled: a pair whose own path is slower than both lines looks like two
// slow lines. Pure arithmetic; any thread.
#ifndef CAUSEWAY_DAEMON_PLANNING_COST_MODEL_H_
#define CAUSEWAY_DAEMON_PLANNING_COST_MODEL_H_

#include <cstdint>
#include <map>
#include <vector>

#include "compression/codec.h"
#include "daemon/planning/plan.h"

namespace causeway::planning {

// Framing, TLS and TCP/IP on top of encoded bytes, measured as a share of them.
inline constexpr double kWireOverhead = 0.03;

// Beyond the bytes, in round trips of the slowest pair: half for the data, half for COMPLETE, and
// half more for the second hop.
inline constexpr double kDirectRoundTrips = 1.0;
inline constexpr double kOwnerRoundTrips = 1.5;
inline double RoundTrips(Route route) {
  return route == Route::kOwner ? kOwnerRoundTrips : kDirectRoundTrips;
}

// Payload bytes per second of one cluster's line.
struct Line {
  double out = 0;
  double in = 0;
};

// Of one fragment between the clusters of `lines`.
struct Exchange {
  std::map<engine::ClusterId, Line> lines;  // the members; every rate above 0
  double rtt_seconds = 0;                   // of the slowest pair
  uint64_t elements = 0;
  // What the lossless stage wins where a codec has it, as far as it is known: plain bytes for each
  // byte sent.
  std::map<compression::CodecKind, double> packed;
};

// Encoded bytes of so many elements, before the lossless stage; and of an exchange's, with it.
double EncodedBytes(const compression::CodecSpec& codec, uint64_t elements);
double SentBytes(const compression::CodecSpec& codec, const Exchange& exchange);

struct Cost {
  double transfer_seconds = 0;  // of the slowest line
  double latency_seconds = 0;
  double bytes_out_max = 0;  // through one cluster's line, framing included
  engine::ClusterId slowest = 0;
  bool slowest_sends = false;  // it is its way out that takes longest

  double seconds() const { return transfer_seconds + latency_seconds; }
};
// Shares of clusters that are not members count for nothing.
Cost CostOf(const Plan& plan, const Exchange& exchange);
// Seconds that one cluster's line needs in this plan, each way.
struct LineSeconds {
  double out = 0;
  double in = 0;
};
LineSeconds SecondsOf(engine::ClusterId cluster, const Plan& plan, const Exchange& exchange);

// Shares that sum to 1 and minimise the slowest line's time, for the plan's codecs. At least one
// member. By bisection over the time: what a line can own grows with it.
std::map<engine::ClusterId, double> BestShares(const Plan& plan, const Exchange& exchange);

// In parts of kShareParts, by largest remainder, ties to the lower cluster. Shares sum to 1.
std::map<engine::ClusterId, uint32_t> PartsOf(const std::map<engine::ClusterId, double>& shares);

// The plan with the best owners for these lines; with fewer than three members, or where going
// direct is not slower, direct.
Plan Routed(Plan plan, const Exchange& exchange, bool direct_allowed, bool owner_allowed);

}  // namespace causeway::planning

#endif  // CAUSEWAY_DAEMON_PLANNING_COST_MODEL_H_
