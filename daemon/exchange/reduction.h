// One combination of contributions: exactly the set that the engine named, chunk by chunk, and who
// makes which.
//
// Where the plan has owners, a chunk is combined by its owner and awaited by the others; else
// everybody combines every chunk. No contributors, or no weight: the round leaves the fragment
// unchanged. Confined to the loop's thread.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_
#define CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "daemon/engine/action.h"
#include "daemon/engine/ids.h"
#include "daemon/exchange/combine.h"
#include "daemon/exchange/routing.h"

namespace causeway::exchange {

// What the plans of an order's contributors say.
struct ReductionPlan {
  std::shared_ptr<const Owners> owners;        // of the highest plan; shared with the routing
  compression::CodecSpec result_codec;         // of that plan
  std::vector<compression::CodecSpec> codecs;  // by contributor
  std::vector<std::shared_ptr<const Owners>> routes;  // by contributor: whom it sends to by itself
};

class Reduction {
 public:
  Reduction(engine::Reduce order, ReductionPlan plan, engine::ClusterId self, uint32_t chunks)
      : order_(std::move(order)),
        plan_(std::move(plan)),
        self_(self),
        weights_(WeightsOf(order_.contributors)),
        chunks_(chunks),
        started_(chunks, false),
        finished_(chunks, false) {}

  const engine::Reduce& order() const { return order_; }
  const ReductionPlan& plan() const { return plan_; }
  const Weights& weights() const { return weights_; }
  double TotalWeight() const;

  // No contributor counts: the fragment stays as it is.
  bool unchanged() const;
  bool direct() const { return plan_.owners->empty(); }
  // Whether this gateway makes the mean of the chunk, or gets it from the owner.
  bool Combines(uint32_t chunk) const { return direct() || (*plan_.owners)[chunk] == self_; }
  engine::ClusterId owner(uint32_t chunk) const { return (*plan_.owners)[chunk]; }
  // Whether contributor `c` sends the chunk here without being asked.
  bool ComesByItself(size_t c, uint32_t chunk) const {
    return plan_.routes[c]->empty() || (*plan_.routes[c])[chunk] == self_;
  }

  bool held() const { return done_ == chunks_.size(); }
  uint32_t done() const { return done_; }
  bool started(uint32_t chunk) const { return started_[chunk]; }
  bool finished(uint32_t chunk) const { return finished_[chunk]; }
  void Start(uint32_t chunk) { started_[chunk] = true; }
  void Restart(uint32_t chunk) { started_[chunk] = false; }
  void Finish(uint32_t chunk, ReducedChunk reduced) {
    nonfinite_ = nonfinite_ || reduced.nonfinite;
    chunks_[chunk] = std::move(reduced);
    started_[chunk] = true;
    finished_[chunk] = true;
    ++done_;
  }
  bool nonfinite() const { return nonfinite_; }
  const ReducedChunk& chunk(uint32_t index) const { return chunks_[index]; }
  std::vector<engine::Hash64> hashes() const;
  // Of the whole result.
  engine::Hash256 Hash() const;

  // Another attempt over the same contributions, reduced by the same clusters: what is combined
  // here stays.
  bool SameWork(const Reduction& other) const;
  void Rename(const engine::Reduce& other) { order_ = other; }
  // Takes over what `other`, of the same work, has combined as an owner; what it awaited is sent
  // again under the new attempt's name.
  void TakeOwned(Reduction& other);

  bool announced = false;  // ResultHeld was reported for the present order

 private:
  engine::Reduce order_;
  const ReductionPlan plan_;
  const engine::ClusterId self_;
  Weights weights_;
  std::vector<ReducedChunk> chunks_;
  std::vector<bool> started_;
  std::vector<bool> finished_;
  uint32_t done_ = 0;
  bool nonfinite_ = false;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_
