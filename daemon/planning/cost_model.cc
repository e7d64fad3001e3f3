// Loads are linear in a cluster's own share, so the best shares follow from how much each line can
// own within a given time; only the time has to be searched. Equal codecs and lines have a closed
// form (max(1 / b_min, 2 (n - 1) / sum b) times the data), which the tests hold this against.
#include "daemon/planning/cost_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace causeway::planning {
namespace {

constexpr int kHalvings = 100;

// Bytes through a line as a function of the cluster's own share: fixed + slope x share.
struct Load {
  double fixed = 0;
  double slope = 0;
  double At(double share) const { return fixed + slope * share; }
};

struct Loads {
  Load out;
  Load in;
};

double Own(engine::ClusterId cluster, const Plan& plan, const Exchange& exchange) {
  return SentBytes(plan.ContributionCodec(cluster), exchange);
}

// Everybody else's contributions together.
double Others(engine::ClusterId cluster, const Plan& plan, const Exchange& exchange) {
  double sum = 0;
  for (const auto& [other, line] : exchange.lines) {
    if (other != cluster) sum += Own(other, plan, exchange);
  }
  return sum;
}

Loads LoadsOf(engine::ClusterId cluster, const Plan& plan, const Exchange& exchange) {
  const double own = Own(cluster, plan, exchange);
  const double others = Others(cluster, plan, exchange);
  const auto peers = static_cast<double>(exchange.lines.size() - 1);
  if (peers == 0) return {};
  if (plan.route == Route::kDirect) return {{peers * own, 0}, {others, 0}};
  const double result = SentBytes(plan.codec, exchange);
  // Out: what others own of the contribution, and the own results to everybody. In: everybody's
  // contributions to what it owns, and others' results.
  return {{own, peers * result - own}, {result, others - result}};
}

double ShareOf(engine::ClusterId cluster, const Plan& plan) {
  const auto part = plan.parts.find(cluster);
  return part == plan.parts.end() ? 0 : static_cast<double>(part->second) / kShareParts;
}

// Shares of one cluster with which its line is done in time.
struct Range {
  double least = 0;
  double most = 1;

  void Cut(const Load& load, double rate, double seconds) {
    const double room = seconds * rate - load.fixed;
    if (load.slope > 0) {
      most = std::min(most, room / load.slope);
    } else if (load.slope < 0) {  // more share is less load
      least = std::max(least, room / load.slope);
    } else if (room < 0) {
      most = -1;
    }
  }
};

// Empty: no shares are good enough.
std::map<engine::ClusterId, double> SharesWithin(
    const std::map<engine::ClusterId, std::pair<Loads, Line>>& lines, double seconds) {
  std::map<engine::ClusterId, Range> ranges;
  double least = 0;
  double most = 0;
  for (const auto& [cluster, line] : lines) {
    Range& range = ranges[cluster];
    range.Cut(line.first.out, line.second.out, seconds);
    range.Cut(line.first.in, line.second.in, seconds);
    if (range.least > range.most) return {};
    least += range.least;
    most += range.most;
  }
  if (least > 1 || most < 1) return {};
  const double between = most > least ? (1 - least) / (most - least) : 0;
  std::map<engine::ClusterId, double> shares;
  for (const auto& [cluster, range] : ranges) {
    shares[cluster] = range.least + between * (range.most - range.least);
  }
  return shares;
}

}  // namespace

double EncodedBytes(const compression::CodecSpec& codec, uint64_t elements) {
  const double chunks = std::ceil(static_cast<double>(elements) / compression::kChunkElements);
  return (static_cast<double>(elements) * compression::BitsPerElement(codec) / 8 +
          chunks * compression::kChunkHeaderBytes) *
         (1 + kWireOverhead);
}

double SentBytes(const compression::CodecSpec& codec, const Exchange& exchange) {
  const double plain = EncodedBytes(codec, exchange.elements);
  const auto ratio = exchange.packed.find(codec.kind);
  return codec.entropy && ratio != exchange.packed.end() ? plain / ratio->second : plain;
}

LineSeconds SecondsOf(engine::ClusterId cluster, const Plan& plan, const Exchange& exchange) {
  const Loads loads = LoadsOf(cluster, plan, exchange);
  const Line& line = exchange.lines.at(cluster);
  assert(line.out > 0 && line.in > 0);
  const double share = ShareOf(cluster, plan);
  return {loads.out.At(share) / line.out, loads.in.At(share) / line.in};
}

Cost CostOf(const Plan& plan, const Exchange& exchange) {
  Cost cost;
  if (exchange.lines.size() < 2) return cost;
  cost.latency_seconds = RoundTrips(plan.route) * exchange.rtt_seconds;
  for (const auto& [cluster, line] : exchange.lines) {
    const LineSeconds seconds = SecondsOf(cluster, plan, exchange);
    cost.bytes_out_max = std::max(cost.bytes_out_max, seconds.out * line.out);
    if (std::max(seconds.out, seconds.in) > cost.transfer_seconds) {
      cost.transfer_seconds = std::max(seconds.out, seconds.in);
      cost.slowest = cluster;
      cost.slowest_sends = seconds.out >= seconds.in;
    }
  }
  return cost;
}

std::map<engine::ClusterId, double> BestShares(const Plan& plan, const Exchange& exchange) {
  assert(!exchange.lines.empty());
  Plan by_owner = plan;
  by_owner.route = Route::kOwner;
  std::map<engine::ClusterId, std::pair<Loads, Line>> lines;
  std::map<engine::ClusterId, double> best;  // equal shares are within `high`
  double low = 0;
  double high = 0;
  for (const auto& [cluster, line] : exchange.lines) {
    const Loads loads = LoadsOf(cluster, by_owner, exchange);
    lines.emplace(cluster, std::pair(loads, line));
    const double equal = 1.0 / static_cast<double>(exchange.lines.size());
    best[cluster] = equal;
    high = std::max({high, loads.out.At(equal) / line.out, loads.in.At(equal) / line.in});
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    std::map<engine::ClusterId, double> shares = SharesWithin(lines, middle);
    if (shares.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(shares);
    }
  }
  return best;
}

std::map<engine::ClusterId, uint32_t> PartsOf(const std::map<engine::ClusterId, double>& shares) {
  struct Rest {
    engine::ClusterId cluster;
    double remainder;
  };
  std::map<engine::ClusterId, uint32_t> parts;
  std::vector<Rest> rests;
  uint32_t left = kShareParts;
  for (const auto& [cluster, share] : shares) {
    const double exact = std::clamp(share, 0.0, 1.0) * kShareParts;
    const auto whole = std::min(left, static_cast<uint32_t>(exact));
    parts[cluster] = whole;
    left -= whole;
    rests.push_back({cluster, exact - whole});
  }
  std::stable_sort(rests.begin(), rests.end(),
                   [](const Rest& a, const Rest& b) { return a.remainder > b.remainder; });
  for (size_t i = 0; left > 0; i = (i + 1) % rests.size(), --left) ++parts[rests[i].cluster];
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  return parts;
}

Plan Routed(Plan plan, const Exchange& exchange, bool direct_allowed, bool owner_allowed) {
  plan.route = Route::kDirect;
  plan.parts.clear();
  if (!owner_allowed || (direct_allowed && exchange.lines.size() < 3)) return plan;
  Plan by_owner = plan;
  by_owner.route = Route::kOwner;
  by_owner.parts = PartsOf(BestShares(plan, exchange));
  if (!direct_allowed) return by_owner;
  const bool cheaper = CostOf(by_owner, exchange).seconds() < CostOf(plan, exchange).seconds();
  return cheaper ? by_owner : plan;
}

}  // namespace causeway::planning
