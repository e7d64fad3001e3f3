// The round engine: membership, rounds, commit, retry and catch-up of ONE run on ONE gateway.
//
// A deterministic state machine after daemon/ROUNDS.md: it takes events with a time and returns
// actions. It does no I/O, reads no clock, starts no thread and holds no data bytes; the daemon and
// the simulator drive the same class. Two engines given the same events, times and seed act alike.
//
// Thread: confined to one; the owner calls Handle, then TakeActions, after every event.
// Memory: bounded by clusters x fragments; messages that name unknown clusters, fragments or epochs
// are dropped and counted.
// Errors: what peers send wrong is dropped or, where the run cannot go on, becomes a Fatal action.
// Events that its own driver must not send (an unknown fragment in Submit) are assertions.
//
// Life: construct with what the disk holds -> Start -> anything. A restarted gateway constructs a
// new engine with a new incarnation; it takes no part in rounds until the next epoch names it.
#ifndef CAUSEWAY_DAEMON_ENGINE_ENGINE_H_
#define CAUSEWAY_DAEMON_ENGINE_ENGINE_H_

#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/config.h"
#include "daemon/engine/event.h"
#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"
#include "daemon/engine/status.h"

namespace causeway::engine {

class Core;

class Engine {
 public:
  // `durable`: as last persisted; default: a blank disk. `random_seed` spreads candidacies in time.
  Engine(Config config, Durable durable, uint64_t random_seed);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // `now` never goes back.
  void Handle(Time now, const Event& event);

  // The actions since the last call, to be carried out in order.
  std::vector<Action> TakeActions();
  // The same into `out`, whose room is used again: for drivers of many events.
  void TakeActions(std::vector<Action>* out);

  // When a Timer event is due if nothing happens before; kNever: not at all.
  Time NextTimer() const;

  Status Snapshot() const;

  // What is known about an operation of the local trainer, from open rounds and kept records;
  // nullopt: unknown here, so that its trainer may submit it (again).
  std::optional<OpChanged> FindOperation(FragmentId fragment, OpId op) const;

  // The kept records of a fragment, newest last: the checkpoint stores them beside the state.
  const std::vector<CommitRecord>& Records(FragmentId fragment) const;

  uint64_t messages_dropped() const;
  Kept CountKept() const;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_ENGINE_H_
