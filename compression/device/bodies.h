// Which kernel body encodes and which sums the chunks of a codec: the one list for the device and
// for the tests that run the bodies on the CPU.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_BODIES_H_
#define CAUSEWAY_COMPRESSION_DEVICE_BODIES_H_

#include "compression/device/combine.h"
#include "compression/device/encode.h"

namespace causeway::compression::device {

template <class Code>
struct BlockEncoder {
  using Shared = EncodeShared;
  template <class Thread>
  CAUSEWAY_DEVICE void Run(const Thread& thread, const EncodeBatch& batch, Shared& shared) {
    EncodeBlocks<Code>(thread, batch, shared);
  }
};

struct SignEncoder {
  using Shared = SignShared;
  template <class Thread>
  CAUSEWAY_DEVICE void Run(const Thread& thread, const EncodeBatch& batch, Shared& shared) {
    EncodeSign(thread, batch, shared);
  }
};

template <class Cast>
struct CastEncoder {
  using Shared = NoShared;
  template <class Thread>
  CAUSEWAY_DEVICE void Run(const Thread& thread, const EncodeBatch& batch, Shared& shared) {
    EncodeCast<Cast>(thread, batch, shared);
  }
};

template <class Code>
struct BlockCombiner {
  using Shared = CombineShared;
  template <class Thread>
  CAUSEWAY_DEVICE void Run(const Thread& thread, const CombineBatch& batch, Shared& shared) {
    CombineBlocks<Code>(thread, batch, shared);
  }
};

template <class Cast>
struct CastCombiner {
  using Shared = CombineNoShared;
  template <class Thread>
  CAUSEWAY_DEVICE void Run(const Thread& thread, const CombineBatch& batch, Shared& shared) {
    CombineCast<Cast>(thread, batch, shared);
  }
};

// Calls visit.template operator()<Encoder, Combiner>() for the codec's bodies; false: it has none.
template <class Visitor>
bool VisitBodies(CodecKind kind, Visitor visit) {
  using namespace math;
  switch (kind) {
    case CodecKind::kFp32:
      visit.template operator()<CastEncoder<Fp32Cast>, CastCombiner<Fp32Cast>>();
      return true;
    case CodecKind::kBf16:
      visit.template operator()<CastEncoder<Bf16Cast>, CastCombiner<Bf16Cast>>();
      return true;
    case CodecKind::kFp16:
      visit.template operator()<CastEncoder<Fp16Cast>, CastCombiner<Fp16Cast>>();
      return true;
    case CodecKind::kInt8:
      visit.template operator()<BlockEncoder<IntegerCode<8>>, BlockCombiner<IntegerCode<8>>>();
      return true;
    case CodecKind::kInt4:
      visit.template operator()<BlockEncoder<IntegerCode<4>>, BlockCombiner<IntegerCode<4>>>();
      return true;
    case CodecKind::kNf4:
      visit.template operator()<BlockEncoder<Nf4Code>, BlockCombiner<Nf4Code>>();
      return true;
    case CodecKind::kFp8:
      visit.template operator()<BlockEncoder<Fp8Code>, BlockCombiner<Fp8Code>>();
      return true;
    case CodecKind::kMxfp4:
      visit.template operator()<BlockEncoder<Mxfp4Code>, BlockCombiner<Mxfp4Code>>();
      return true;
    case CodecKind::kE3m0:
      visit.template operator()<BlockEncoder<E3m0Code>, BlockCombiner<E3m0Code>>();
      return true;
    case CodecKind::kSign:
      visit.template operator()<SignEncoder, BlockCombiner<SignUnits>>();
      return true;
    case CodecKind::kTwoBit:
    case CodecKind::kTopK:
    case CodecKind::kBlockTopK:
    case CodecKind::kBf16Planes:
    case CodecKind::kFp32Planes:
    case CodecKind::kCosine:
    case CodecKind::kPatch:
    case CodecKind::kLowRank:
      return false;
  }
  return false;
}

// Threads of a tile, which holds whole blocks; tiles of a chunk.
constexpr uint32_t TileThreads(uint32_t block) {
  constexpr uint32_t kUsual = 256;
  return block / kThreadElements > kUsual ? block / kThreadElements : kUsual;
}
constexpr uint32_t TilesOfChunk(uint32_t block, uint64_t elements) {
  const uint32_t tile = TileThreads(block) * kThreadElements;
  const uint64_t n = elements < kChunkElements ? elements : kChunkElements;
  return static_cast<uint32_t>((n + tile - 1) / tile);
}
constexpr uint32_t ChunksOf(uint64_t elements) {
  return static_cast<uint32_t>((elements + kChunkElements - 1) / kChunkElements);
}

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_BODIES_H_
