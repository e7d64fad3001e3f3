// What a run keeps of its trainer on this cluster: the session, and one operation a fragment until
// its result is applied. Plain data, confined to the loop's thread.
#ifndef CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_
#define CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_

#include <cstdint>
#include <map>
#include <optional>

#include "daemon/engine/action.h"
#include "proto/local_protocol.h"

namespace causeway::run {

struct LocalOp {
  uint64_t session = 0;
  uint64_t op = 0;
  uint32_t fragment = 0;
  int64_t base_round = 0;
  uint64_t weight = 0;
  int64_t submitted_us = 0;
  bool handed_over = false;  // the engine has it
  bool sending = false;      // bytes may have left this gateway
  bool reported = false;     // the trainer knows the end
  // The end, as the engine said it; told once the value is readable.
  std::optional<engine::OpChanged> decided;
  local::State end = local::State::kPending;
  uint32_t participants = 0;
  bool nonfinite = false;
  uint64_t wire_bytes = 0;
  uint64_t exchange_us = 0;

  engine::OpId id() const { return {session, op}; }
};

struct LocalTrainer {
  uint64_t session = 0;
  local::Init init = local::Init::kRun;
  bool joined = false;
  bool offered = false;             // its first values lie in the snapshot, and are looked at
  bool announced = false;           // the engine knows it
  bool ready = false;               // it may submit
  std::optional<uint64_t> finish;   // the Finish that is answered once the digest is made
  std::map<uint32_t, LocalOp> ops;  // by fragment
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_LOCAL_TRAINER_H_
