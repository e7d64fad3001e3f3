// Links between the gateways of the simulator: which are cut, how long they take, what they lose or
// double. Decides; the world moves the messages.
#ifndef CAUSEWAY_TESTS_SIM_NETWORK_H_
#define CAUSEWAY_TESTS_SIM_NETWORK_H_

#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/engine/random.h"

namespace causeway::sim {

class Network {
 public:
  Network(int clusters, engine::Random& random)
      : clusters_(clusters), random_(random), cut_(static_cast<size_t>(clusters * clusters)) {}

  double loss = 0;
  double duplication = 0;
  engine::Time delay_max = 1;

  bool Cut(int from, int to) const { return cut_[Index(from, to)]; }
  void SetCut(int from, int to, bool cut) { cut_[Index(from, to)] = cut; }
  void Heal() { cut_.assign(cut_.size(), false); }
  bool Loses(int from, int to) { return Cut(from, to) || random_.Chance(loss); }
  bool Doubles() { return random_.Chance(duplication); }
  engine::Time Delay() {
    return 1 + static_cast<engine::Time>(random_.Below(static_cast<uint64_t>(delay_max)));
  }

 private:
  size_t Index(int from, int to) const { return static_cast<size_t>(from * clusters_ + to); }

  int clusters_;
  engine::Random& random_;
  std::vector<bool> cut_;
};

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_NETWORK_H_
