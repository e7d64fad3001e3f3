// This cluster's own contribution to one round of one fragment: its encoded chunks, kept until the
// engine releases them, and who gets which.
//
// Confined to the loop's thread. Does not: encode (own_contribution.h schedules that) or decide.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_
#define CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/ids.h"
#include "daemon/exchange/routing.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

class Contribution {
 public:
  Contribution(const engine::StartContribution& order, uint32_t chunks)
      : order_(order), chunks_(chunks) {}

  engine::OpId op() const { return order_.op; }
  engine::RoundNumber round() const { return order_.round; }
  engine::Lineage lineage() const { return order_.lineage; }
  engine::PlanId plan() const { return order_.plan; }
  engine::Weight weight() const { return order_.weight; }
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

  // The members that there are in this epoch, and the owners of its plan among them. Where the
  // epoch is a new one, what was asked for in the old one is void.
  void Address(engine::Epoch epoch, engine::ClusterSet to, std::shared_ptr<const Owners> owners) {
    if (epoch != epoch_) {
      to_ = {};
      asked_.clear();
    }
    epoch_ = epoch;
    to_ = to_ | to;
    owners_ = std::move(owners);
  }
  engine::Epoch epoch() const { return epoch_; }
  engine::ClusterSet to() const { return to_; }
  // Null while the plan is not known.
  const Owners* owners() const { return owners_.get(); }

  // A member reduces the chunk although this plan does not say so.
  void Ask(uint32_t index, engine::ClusterId member) {
    if (asked_.empty()) asked_.resize(chunks_.size());
    asked_[index].Insert(member);
  }
  // Who gets the chunk once it is encoded.
  engine::ClusterSet Recipients(uint32_t index) const {
    engine::ClusterSet out = to_;
    if (owners_ && !owners_->empty()) {
      out = to_ & engine::ClusterSet(uint64_t{1} << (*owners_)[index]);
    }
    return asked_.empty() ? out : out | asked_[index];
  }

  uint32_t next_to_encode = 0;  // chunks below it are encoded or on a worker

 private:
  const engine::StartContribution order_;
  engine::Epoch epoch_;
  engine::ClusterSet to_;
  std::shared_ptr<const Owners> owners_;   // shared with the routing that made it
  std::vector<engine::ClusterSet> asked_;  // by chunk; empty: nobody asked
  std::vector<memory::SharedBuffer> chunks_;
  uint32_t encoded_ = 0;
  uint64_t encoded_bytes_ = 0;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_CONTRIBUTION_H_
