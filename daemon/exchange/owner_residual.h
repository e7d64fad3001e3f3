// What re-encoding the means of owned chunks lost so far, on this gateway: bf16, by chunk.
//
// A round's new residual is made beside the old one, by each attempt anew, and takes its place with
// the commit; an attempt that is dropped drops its own. Where another cluster has become the owner
// of a chunk, what lies here, times W / w, is added to this cluster's next contribution,
// so that it is not lost; a gateway that dies loses it.
//
// Confined to the loop's thread; buffers move to workers and stay unwritten while shared.
// Memory: 2 bytes an owned element, from the run's reserve, and as much again while a round is
// open.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_OWNER_RESIDUAL_H_
#define CAUSEWAY_DAEMON_EXCHANGE_OWNER_RESIDUAL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/engine/record.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

class OwnerResidual {
 public:
  explicit OwnerResidual(uint32_t chunks) : chunks_(chunks) {}

  // Null bytes: zero.
  const memory::SharedBuffer& chunk(uint32_t index) const { return chunks_[index]; }

  // The round is committed: `bytes` are what its encoding lost of an owned chunk.
  void Set(uint32_t index, memory::SharedBuffer bytes) { chunks_[index] = std::move(bytes); }
  void SetTotalWeight(double weight) { total_weight_ = weight; }

  // Takes the chunk's residual away for a contribution of weight `weight` (not 0), by which it must
  // be scaled. Null bytes: there is none.
  memory::SharedBuffer Take(uint32_t index) { return std::exchange(chunks_[index], {}); }
  double Scale(engine::Weight weight) const { return total_weight_ / static_cast<double>(weight); }

  void Reset() {
    for (memory::SharedBuffer& chunk : chunks_) chunk = {};
  }

 private:
  std::vector<memory::SharedBuffer> chunks_;
  double total_weight_ = 0;  // of the newest committed round: W
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_OWNER_RESIDUAL_H_
