// `causeway plan` from figures: for each codec and number of local steps what an exchange costs and
// whether computation hides it. Pure; the same arithmetic as the leader's (daemon/planning).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace causeway::cli {

inline constexpr uint32_t kLocalStepsMax = 1'000'000;
inline constexpr size_t kLocalStepsListMax = 16;

struct PlanQuestion {
  uint64_t parameters = 0;
  double step_seconds = 0;
  std::vector<double> bytes_per_second;  // of each cluster's line; 2 to 64
  double rtt_seconds = 0;
  std::vector<uint32_t> local_steps = {1, 10, 20, 50, 100, 500};
  uint32_t fragments = 1;
};

// One codec with one number of local steps.
struct PlanRow {
  std::string codec;
  double bits = 0;
  uint32_t local_steps = 0;
  std::string route;
  double exchange_seconds = 0;    // of one fragment
  double bytes_out = 0;           // by the cluster that sends most, in one round of all fragments
  double bytes_ratio = 0;         // fewer than fp32, every step, the same way
  bool hides = false;             // with some delay below the local steps, all fragments in turn
  uint32_t delay_steps = 0;       // the least that hides it
  double computing = 0;           // share of the time, with that delay (or the longest)
  double computing_blocking = 0;  // where trainers wait for each result
  bool automatic = false;         // what `codec: auto` would choose with `delay: auto`
};

std::vector<PlanRow> PlanRows(const PlanQuestion& question);
std::string FormatPlan(const PlanQuestion& question, const std::vector<PlanRow>& rows);
std::string FormatPlanJson(const PlanQuestion& question, const std::vector<PlanRow>& rows);

}  // namespace causeway::cli
