// See tasks.h.
#include "daemon/work/tasks.h"

#include <utility>

namespace causeway::work {
namespace {

std::function<void()> Unless(std::weak_ptr<bool> alive, std::function<void()> function) {
  return [alive = std::move(alive), function = std::move(function)] {
    if (!alive.expired()) function();
  };
}

}  // namespace

void Tasks::Run(std::function<void()> work, std::function<void()> done) {
  workers_->Submit(
      [loop = loop_, work = std::move(work), done = Unless(alive_, std::move(done))]() mutable {
        work();
        work = nullptr;  // what the first half owned is free before the second runs
        loop->Post(std::move(done));
      });
}

void Tasks::Soon(std::function<void()> function) {
  loop_->Post(Unless(alive_, std::move(function)));
}

void Tasks::After(int64_t delay_us, std::function<void()> function) {
  loop_->After(delay_us, Unless(alive_, std::move(function)));
}

}  // namespace causeway::work
