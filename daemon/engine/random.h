// splitmix64: small, seedable, the same everywhere. Not for secrets.
#ifndef CAUSEWAY_DAEMON_ENGINE_RANDOM_H_
#define CAUSEWAY_DAEMON_ENGINE_RANDOM_H_

#include <cstdint>

namespace causeway::engine {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // 0 .. bound-1; 0 when bound is 0. The bias is below 2^-32 for the bounds in use.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11) * 0x1p-53 < probability;
  }

 private:
  uint64_t state_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_RANDOM_H_
