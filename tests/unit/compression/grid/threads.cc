// One tile on system threads, for the sanitizers.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/compression/grid/grid.h"

namespace causeway::compression::grid {
namespace {

class Threads final : public Meeting {
 public:
  explicit Threads(uint32_t threads) : groups_(1 + threads / 32) {
    groups_[0].members = threads;
    for (size_t g = 1; g < groups_.size(); ++g) groups_[g].members = 32;
  }

  void Wait(uint32_t group) override {
    Group& g = groups_[group];
    std::unique_lock<std::mutex> lock(g.mutex);
    const uint64_t generation = g.generation;
    if (++g.waiting == g.members) {
      g.waiting = 0;
      ++g.generation;
      g.all.notify_all();
    } else {
      g.all.wait(lock, [&] { return g.generation != generation; });
    }
  }

 private:
  struct Group {
    std::mutex mutex;
    std::condition_variable all;
    uint32_t members = 0;
    uint32_t waiting = 0;
    uint64_t generation = 0;
  };
  std::vector<Group> groups_;
};

}  // namespace

void RunThreads(uint32_t threads, Tile* tile, const std::function<void(uint32_t)>& run) {
  Threads meeting(threads);
  tile->meeting = &meeting;
  std::vector<std::thread> running;
  running.reserve(threads);
  for (uint32_t t = 0; t < threads; ++t) running.emplace_back([&run, t] { run(t); });
  for (std::thread& thread : running) thread.join();
}

}  // namespace causeway::compression::grid
