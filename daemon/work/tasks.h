// Work in two halves: one on a worker, one on the loop's thread afterwards, which is left out when
// the owner is gone by then.
//
// An owner confined to the loop's thread has one Tasks as its last member. Both halves own what
// they touch, save that the second may use the owner. Confined to the loop's thread.
#ifndef CAUSEWAY_DAEMON_WORK_TASKS_H_
#define CAUSEWAY_DAEMON_WORK_TASKS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/loop/loop.h"
#include "daemon/work/worker_pool.h"

namespace causeway::work {

class Tasks {
 public:
  // Both outlive the tasks.
  Tasks(WorkerPool* workers, loop::Loop* loop) : workers_(workers), loop_(loop) {}

  // Runs `work` on a worker, then `done` on the loop's thread.
  void Run(std::function<void()> work, std::function<void()> done);
  // `function` runs on the loop's thread at its next turn, or after a while.
  void Soon(std::function<void()> function);
  void After(int64_t delay_us, std::function<void()> function);

 private:
  WorkerPool* const workers_;
  loop::Loop* const loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // tasks hold a weak reference
};

}  // namespace causeway::work

#endif  // CAUSEWAY_DAEMON_WORK_TASKS_H_
