// What a run keeps of its trainer on this cluster: the sessions of its ranks, and one operation a
// fragment until its result is applied. Plain data, confined to the loop's thread.
//
// The ranks are one trainer to the engine: it joins when the last of them has offered its slices,
// an operation begins when the last of them has submitted its own, and one that dies takes all
// away.
#ifndef CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_
#define CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "daemon/endpoint/coverage.h"
#include "daemon/endpoint/device_snapshots.h"
#include "daemon/engine/action.h"
#include "proto/local_protocol.h"

namespace causeway::run {

struct LocalOp {
  uint64_t session = 0;
  uint64_t op = 0;
  uint32_t fragment = 0;
  int64_t base_round = 0;
  local::Origin origin = local::Origin::kBase;
  uint64_t weight = 0;  // of all ranks
  // Where its snapshot lies; shared with contributions. Null: in the segment.
  std::shared_ptr<const endpoint::DeviceSnapshots> device;
  int64_t submitted_us = 0;
  std::map<uint32_t, uint64_t> submits;  // by rank that has submitted: its message's number
  std::set<uint32_t> applied;            // ranks
  bool handed_over = false;              // the engine has it
  bool sending = false;                  // bytes may have left this gateway
  bool reported = false;                 // the trainer knows the end
  // The end, as the engine said it; told once the value is readable.
  std::optional<engine::OpChanged> decided;
  std::optional<uint32_t> wanted;  // while it waits: the fragment whose work others wait for
  local::State end = local::State::kPending;
  uint32_t participants = 0;
  bool nonfinite = false;
  uint64_t wire_bytes = 0;
  uint64_t exchange_us = 0;

  engine::OpId id() const { return {session, op}; }
};

struct LocalRank {
  uint64_t session = 0;
  bool joined = false;
  bool offered = false;
  bool ready = false;              // it may submit
  std::optional<uint64_t> finish;  // the Finish that is answered once the digest is made
  bool left = false;
};

struct LocalTrainer {
  uint64_t session = 0;  // as the engine knows it: that of the rank that came first
  uint32_t world = 1;    // ranks
  local::Init init = local::Init::kRun;
  std::map<uint32_t, LocalRank> ranks;
  std::vector<endpoint::Coverage> slices;  // by fragment, until the last rank has offered
  // Of its own device, mapped here; shared with operations and contributions. Null: none.
  std::shared_ptr<const endpoint::DeviceSnapshots> device;
  bool announced = false;                  // the engine knows it
  bool digesting = false;                  // the final values' digest is being made
  std::map<uint32_t, LocalOp> ops;         // by fragment
  // The values that it was told of, by fragment, newest last: what a base round means.
  std::map<uint32_t, std::deque<engine::StateId>> values;

  template <typename Test>
  bool All(Test test) const {
    return ranks.size() == world && std::all_of(ranks.begin(), ranks.end(), [&](const auto& entry) {
             return test(entry.second);
           });
  }
  bool AnyJoined() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const auto& entry) { return entry.second.joined; });
  }
  bool Ready() const {
    return All([](const LocalRank& rank) { return rank.ready; });
  }
  // Whether that session is one of its ranks'.
  bool Has(uint64_t rank_session) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](const auto& entry) {
      return entry.second.session == rank_session;
    });
  }
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_
