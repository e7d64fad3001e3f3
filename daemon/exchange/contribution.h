// This cluster's own contribution to one round of one fragment: its encoded chunks, kept until the
// engine releases them, and who gets them.
//
// Confined to the loop's thread. Does not: encode (fragment_exchange.h schedules that) or decide.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_
#define CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

class Contribution {
 public:
  Contribution(engine::OpId op, engine::RoundNumber round, engine::Lineage lineage, uint32_t chunks)
      : op_(op), round_(round), lineage_(lineage), chunks_(chunks) {}

  engine::OpId op() const { return op_; }
  engine::RoundNumber round() const { return round_; }
  engine::Lineage lineage() const { return lineage_; }
  uint32_t size() const { return static_cast<uint32_t>(chunks_.size()); }
  uint32_t encoded() const { return encoded_; }
  bool complete() const { return encoded_ == size(); }
  uint64_t encoded_bytes() const { return encoded_bytes_; }

  // Null until chunk `index` is encoded.
  const memory::SharedBuffer* chunk(uint32_t index) const {
    return chunks_[index].data() == nullptr ? nullptr : &chunks_[index];
  }
  void Set(uint32_t index, memory::SharedBuffer bytes) {
    encoded_bytes_ += bytes.size();
    ++encoded_;
    chunks_[index] = std::move(bytes);
  }

  // Members that get each chunk once it is encoded, in this epoch.
  void Address(engine::Epoch epoch, engine::ClusterSet to) {
    if (epoch != epoch_) to_ = {};
    epoch_ = epoch;
    to_ = to_ | to;
  }
  engine::Epoch epoch() const { return epoch_; }
  engine::ClusterSet to() const { return to_; }

  uint32_t next_to_encode = 0;  // chunks below it are encoded or on a worker

 private:
  const engine::OpId op_;
  const engine::RoundNumber round_;
  const engine::Lineage lineage_;
  engine::Epoch epoch_;
  engine::ClusterSet to_;
  std::vector<memory::SharedBuffer> chunks_;
  uint32_t encoded_ = 0;
  uint64_t encoded_bytes_ = 0;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_
