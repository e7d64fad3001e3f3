// One combination of contributions: exactly the set that the engine named, chunk by chunk.
//
// For each element, in ascending cluster name:  acc = fl(acc + fl(w_i d_i)), from acc = 0;  then
// mean = fl(acc * c). Where all weights are equal, w_i = 1 and c = fl(1/n), so that the mean of
// equal values is that value for n a power of two; else w_i = fl(weight) and c = fl(1/W), W = sum
// of weights, both rounded once from fp64. No contributors, or no weight: the round leaves the
// fragment unchanged.
//
// State is confined to the loop's thread; CombineChunk is pure and runs on workers.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_
#define CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/engine/action.h"
#include "daemon/engine/ids.h"
#include "daemon/exchange/entropy_pool.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

struct Weights {
  std::vector<float> factors;  // by contributor
  float scale = 1.0f;          // c
};
Weights WeightsOf(const std::vector<engine::Contributor>& contributors);

struct ReducedChunk {
  memory::Buffer mean;  // fp32
  engine::Hash64 hash = 0;
  bool nonfinite = false;
};

// `payloads[i]` are the checked bytes of contributor i; `out` holds the chunk's fp32 elements.
void CombineChunk(const compression::CodecSpec& codec, EntropyPool* entropy,
                  absl::Span<const memory::SharedBuffer> payloads, const Weights& weights,
                  absl::Span<float> out, engine::Hash64* hash, bool* nonfinite);

class Reduction {
 public:
  Reduction(engine::Reduce order, uint32_t chunks)
      : order_(std::move(order)),
        weights_(WeightsOf(order_.contributors)),
        chunks_(chunks),
        started_(chunks, false) {}

  const engine::Reduce& order() const { return order_; }
  const Weights& weights() const { return weights_; }
  // No contributor counts: the fragment stays as it is.
  bool unchanged() const;
  bool held() const { return done_ == chunks_.size(); }
  uint32_t done() const { return done_; }
  bool started(uint32_t chunk) const { return started_[chunk]; }
  void Start(uint32_t chunk) { started_[chunk] = true; }
  void Restart(uint32_t chunk) { started_[chunk] = false; }
  void Finish(uint32_t chunk, ReducedChunk reduced) {
    nonfinite_ = nonfinite_ || reduced.nonfinite;
    chunks_[chunk] = std::move(reduced);
    ++done_;
  }
  bool nonfinite() const { return nonfinite_; }
  const ReducedChunk& chunk(uint32_t index) const { return chunks_[index]; }
  std::vector<engine::Hash64> hashes() const;
  // Of the whole result.
  engine::Hash256 Hash() const;

  // Another attempt over the same contributions: what is combined stays.
  bool SameSet(const engine::Reduce& other) const;
  void Rename(const engine::Reduce& other) { order_ = other; }

  bool announced = false;  // ResultHeld was reported for the present order

 private:
  engine::Reduce order_;
  Weights weights_;
  std::vector<ReducedChunk> chunks_;
  std::vector<bool> started_;
  uint32_t done_ = 0;
  bool nonfinite_ = false;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_REDUCTION_H_
