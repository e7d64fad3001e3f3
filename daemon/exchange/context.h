// What the parts of one run's exchange share. A plain bundle of borrowed things; all outlive the
// exchange, except that endpoint and outer state are also kept alive by tasks on workers.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_CONTEXT_H_
#define CAUSEWAY_DAEMON_EXCHANGE_CONTEXT_H_

#include <memory>

#include "daemon/endpoint/endpoint.h"
#include "daemon/engine/ids.h"
#include "daemon/exchange/entropy_pool.h"
#include "daemon/exchange/ports.h"
#include "daemon/exchange/reserve.h"
#include "daemon/loop/loop.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/outer/outer_state.h"
#include "daemon/planning/plan.h"
#include "daemon/schema/layout.h"
#include "daemon/work/worker_pool.h"

namespace causeway::exchange {

struct Context {
  engine::ClusterId self = 0;
  engine::Incarnation incarnation = 0;
  const planning::PlanBook* plans = nullptr;          // by the id that a contribution names
  std::shared_ptr<const schema::Layout> layout;       // shared with sessions and tasks
  std::shared_ptr<endpoint::LocalEndpoint> endpoint;  // shared with tasks on workers
  std::shared_ptr<outer::OuterState> outer;           // shared with tasks on workers
  std::shared_ptr<EntropyPool> entropy = std::make_shared<EntropyPool>();  // shared with tasks
  bool mean_of_senders = false;  // of the clusters whose value is not 0, else of all
  loop::Loop* loop = nullptr;
  work::WorkerPool* workers = nullptr;
  memory::BufferPool* buffers = nullptr;
  Reserve* reserve = nullptr;  // of this run
  ChunkPort* port = nullptr;
  ExchangeListener* listener = nullptr;
  // Of chunks that a peer may have here unconsumed, which state for a joiner needs, too: what its
  // credits are made of. 0: no bound.
  uint64_t window_bytes = 0;
  // Chunks of a fragment's state that a donor has sent and its joiners have not yet got.
  uint32_t served_ahead_max = 256;
  // A joiner that takes nothing of it for so long is not served any further: commits wait for it.
  int64_t serve_patience_us = 30'000'000;
};

// After this long a task that found no memory is tried again.
inline constexpr int64_t kMemoryRetryUs = 20'000;

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_CONTEXT_H_
