// Runs kernel bodies on the CPU: compression/device/grid.h says what a body asks of its Thread.
//
// Two machines. Fibres: all threads of a tile on one system thread, switched at every wait in an
// order that the seed chooses, so that a missing barrier shows as another result under some seed. A
// barrier that not all threads reach ends as Verdict::kStuck. Threads: one system thread each, so
// that the sanitizers see races and stray accesses. Tiles run one after another, in a seeded order
// that differs from their own, each with fresh shared memory full of noise.
#ifndef CAUSEWAY_TESTS_UNIT_COMPRESSION_GRID_GRID_H_
#define CAUSEWAY_TESTS_UNIT_COMPRESSION_GRID_GRID_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace causeway::compression::grid {

enum class Machine { kFibres, kThreads };
enum class Verdict {
  kDone,
  kStuck,  // threads wait at barriers that the others will never reach (fibres only)
};

// Where threads of one tile meet. Implemented by each machine.
class Meeting {
 public:
  virtual ~Meeting() = default;
  // Returns once every member of the group called it as often as the caller. Group 0 is the tile;
  // group 1 + w the 32 threads of warp w.
  virtual void Wait(uint32_t group) = 0;
};

struct Tile {
  uint32_t threads;
  uint32_t tile;
  uint32_t chunk;
  Meeting* meeting;
  std::vector<uint32_t> exchanged;  // a word for each thread
};

class Thread {
 public:
  Thread(Tile* tile, uint32_t thread) : tile_(tile), thread_(thread) {}
  uint32_t thread() const { return thread_; }
  uint32_t threads() const { return tile_->threads; }
  uint32_t tile() const { return tile_->tile; }
  uint32_t chunk() const { return tile_->chunk; }
  void Sync() const { tile_->meeting->Wait(0); }
  uint32_t Exchange(uint32_t value, uint32_t mask) const;
  void Add(uint32_t* p, uint32_t n) const { __atomic_fetch_add(p, n, __ATOMIC_RELAXED); }
  void Max(uint32_t* p, uint32_t n) const;

 private:
  Tile* tile_;
  uint32_t thread_;
};

struct Shape {
  uint32_t tiles;  // of a chunk
  uint32_t chunks;
  uint32_t threads;  // of a tile; a multiple of 32
};

// `body` runs once for every thread of every tile, given the tile's shared memory.
Verdict Run(Machine machine, const Shape& shape, uint64_t seed, size_t shared_bytes,
            const std::function<void(const Thread&, void* shared)>& body);

// One tile, on either machine; `run(thread)` is one thread's whole work.
Verdict RunFibres(uint32_t threads, uint64_t seed, Tile* tile,
                  const std::function<void(uint32_t)>& run);
void RunThreads(uint32_t threads, Tile* tile, const std::function<void(uint32_t)>& run);

}  // namespace causeway::compression::grid

#endif  // CAUSEWAY_TESTS_UNIT_COMPRESSION_GRID_GRID_H_
