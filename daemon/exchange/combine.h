// What workers do with one chunk of a round: combine contributions, encode the mean once more, or
// decode what an owner made of it. One pass each while the chunk is in cache.
//
// For each element, in ascending cluster name:  acc = fl(acc + fl(w_i d_i)), from acc = 0;  then
// mean = fl(acc * c). Where all weights are equal, w_i = 1 and c = fl(1/n), so that the mean of
// equal values is that value for n a power of two; else w_i = fl(weight) and c = fl(1/W), W = sum
// of weights, both rounded once from fp64. An owner encodes mean + residual and goes on with what
// that decodes to, as everybody does, so all hold the same bytes.
//
// Pure functions; on workers. Payloads are hostile until checked here.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_COMBINE_H_
#define CAUSEWAY_DAEMON_EXCHANGE_COMBINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"
#include "daemon/exchange/entropy_pool.h"
#include "daemon/exchange/packing.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

struct Weights {
  std::vector<float> factors;  // by contributor
  float scale = 1.0f;          // c
};
Weights WeightsOf(const std::vector<engine::Contributor>& contributors);

struct ReducedChunk {
  memory::Buffer mean;  // fp32, of exactly the chunk's elements
  engine::Hash64 hash = 0;
  bool nonfinite = false;
  // An owner's: the mean as it is sent, and what encoding it lost (bf16; none without a residual).
  memory::SharedBuffer result;
  memory::SharedBuffer residual;
};

// Which part was not what its codec makes, and why.
struct BadPart {
  size_t part = 0;
  absl::Status status;
};

// How an owner encodes a mean, with the memory for it.
struct ResultEncoding {
  compression::CodecSpec codec;
  uint32_t seed = 0;
  std::vector<compression::MatrixPiece> pieces;  // of a codec that sends factors
  memory::SharedBuffer residual_in;  // null: zero
  memory::Buffer bytes;              // EncodedSizeMax
  memory::Buffer packed;             // as much, where the codec has the lossless stage
  memory::Buffer residual_out;       // 2 bytes an element; null: not kept
};

// out->mean = the weighted mean of the parts.
std::optional<BadPart> CombineChunk(EntropyPool* entropy, absl::Span<const EncodedPart> parts,
                                    const Weights& weights, ReducedChunk* out);
// out->mean = at each element fl(acc / sum of w_i), both over the parts that decode to something
// other than 0 there, in ascending cluster name; 0 where none does.
std::optional<BadPart> CombineSenders(EntropyPool* entropy, absl::Span<const EncodedPart> parts,
                                      const Weights& weights, ReducedChunk* out);
// out->mean becomes what it decodes to after encoding; result and residual are filled.
void EncodeResult(EntropyPool* entropy, ResultEncoding encoding, ReducedChunk* out);
// out->mean = what an owner sent.
std::optional<BadPart> DecodeResult(EntropyPool* entropy, const EncodedPart& part,
                                    ReducedChunk* out);
// Hash and flag of a mean that will not change any more.
void Seal(ReducedChunk* out);

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_COMBINE_H_
