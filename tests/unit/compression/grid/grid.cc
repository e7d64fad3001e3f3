// The parts that both machines share; fibres.cc and threads.cc run a tile.
#include "tests/unit/compression/grid/grid.h"

#include <numeric>
#include <utility>

#include "tests/unit/compression/samples.h"

namespace causeway::compression::grid {

uint32_t Thread::Exchange(uint32_t value, uint32_t mask) const {
  const uint32_t group = 1 + thread_ / 32;
  tile_->exchanged[thread_] = value;
  tile_->meeting->Wait(group);
  const uint32_t other = tile_->exchanged[thread_ ^ mask];
  tile_->meeting->Wait(group);
  return other;
}

void Thread::Max(uint32_t* p, uint32_t n) const {
  uint32_t seen = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (seen < n &&
         !__atomic_compare_exchange_n(p, &seen, n, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

Verdict Run(Machine machine, const Shape& shape, uint64_t seed, size_t shared_bytes,
            const std::function<void(const Thread&, void* shared)>& body) {
  samples::Random random(seed);
  std::vector<uint32_t> order(shape.tiles * shape.chunks);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Next() % i]);
  for (uint32_t index : order) {
    // As 64-bit words: aligned for anything a body declares.
    std::vector<uint64_t> shared((shared_bytes + 7) / 8);
    for (uint64_t& word : shared) word = random.Next();
    Tile tile{shape.threads, index % shape.tiles, index / shape.tiles, nullptr,
              std::vector<uint32_t>(shape.threads)};
    const auto run = [&](uint32_t thread) { body(Thread(&tile, thread), shared.data()); };
    if (machine == Machine::kThreads) {
      RunThreads(shape.threads, &tile, run);
    } else if (RunFibres(shape.threads, random.Next(), &tile, run) == Verdict::kStuck) {
      return Verdict::kStuck;
    }
  }
  return Verdict::kDone;
}

}  // namespace causeway::compression::grid
