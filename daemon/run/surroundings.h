// What the daemon lends to each of its runs. A plain bundle; everything outlives the runs.
#ifndef CAUSEWAY_DAEMON_RUN_SURROUNDINGS_H_
#define CAUSEWAY_DAEMON_RUN_SURROUNDINGS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/config/config.h"
#include "daemon/gpu/gpu_codec.h"
#include "daemon/loop/loop.h"
#include "daemon/memory/budget.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/observe/log.h"
#include "daemon/observe/metrics.h"
#include "daemon/trainers/service.h"
#include "daemon/transport/transport.h"
#include "daemon/work/worker_pool.h"

namespace causeway::run {

// Finds a trainer's session by id; null when it is gone.
using FindSession = std::function<trainers::Session*(uint64_t)>;

struct Surroundings {
  const config::Config* config = nullptr;
  uint64_t incarnation = 0;  // of this process
  loop::Loop* loop = nullptr;
  work::WorkerPool* workers = nullptr;
  memory::BufferPool* buffers = nullptr;
  memory::Budget* budget = nullptr;
  transport::Transport* transport = nullptr;
  observe::Logger* log = nullptr;
  observe::Metrics* metrics = nullptr;
  std::shared_ptr<gpu::GpuCodec> gpu;  // shared with trainers' memory; null: the CPU does everything
  FindSession find_session;
  // The GPU failed while a contribution lay in its memory.
  std::function<void(const absl::Status&)> device_failed;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_SURROUNDINGS_H_
