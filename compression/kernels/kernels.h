// The table of inner loops that one instruction-set unit provides, and the choice among units.
//
// A unit is kernels_impl.h compiled with other flags; all units produce the same bytes (tests
// compare them). The caller cuts a chunk into tiles of whole blocks, so that a tile stays in the L1
// cache. Does not: check anything. Sizes and contents were checked by codec.cc.
#ifndef CAUSEWAY_COMPRESSION_KERNELS_KERNELS_H_
#define CAUSEWAY_COMPRESSION_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace causeway::compression {

inline constexpr uint32_t kTileElements = 4096;  // a multiple of every block size

// One tile to encode: `blocks` whole blocks.
struct EncodeTile {
  const float* values;
  float* residual;  // null, or blocks x block values fl(v - decoded); may be `values` itself
  uint8_t* scales;  // this tile's part of the scale plane
  uint8_t* codes;   // this tile's part of the code plane
  uint32_t blocks;
  uint32_t block;  // elements; 1 for casts
  bool stochastic;
  uint32_t seed;
  uint32_t present;  // elements before the zeros that complete the last block
  uint32_t first;    // index in the chunk of the tile's first element
};

// One tile to decode.
struct DecodeTile {
  const uint8_t* scales;
  const uint8_t* codes;
  uint32_t blocks;
  uint32_t block;
  bool accumulate;  // false: out = d; true: out = fl(out + fl(weight * d))
  float weight;
  float* out;
};

// values[0..count) of an EncodeInput from element `begin` on.
using GatherFn = void (*)(const EncodeInput& input, uint32_t begin, uint32_t count, float* values);
// Returns true when a block (or a cast's value) was non-finite.
using EncodeFn = bool (*)(const EncodeTile& tile);
using DecodeFn = void (*)(const DecodeTile& tile);

struct KernelTable {
  const char* name;
  GatherFn gather;
  EncodeFn encode[kCodecKinds];
  DecodeFn decode[kCodecKinds];
  // True when any of the n values has a magnitude of at least 2^127 or is NaN.
  bool (*any_huge)(const float* values, size_t n);

  // vector.h documents these.
  void (*to_bf16)(const float* in, size_t n, uint16_t* out);
  void (*from_bf16)(const uint16_t* in, size_t n, float* out);
  void (*to_fp16)(const float* in, size_t n, uint16_t* out);
  void (*from_fp16)(const uint16_t* in, size_t n, float* out);
  void (*scale)(float* x, size_t n, float factor);
  void (*subtract)(float* theta, const float* d, size_t n);
  void (*nesterov)(float* theta, float* momentum, const float* d, size_t n, float eta, float mu);
  uint64_t (*content_hash)(const uint8_t* bytes, size_t size);
  uint32_t (*crc32c)(uint32_t crc, const uint8_t* bytes, size_t size);
};

// Units of x86-64 named by their level; kGeneric is plain C++ for any little-endian machine.
enum class Isa { kGeneric, kV2, kV3, kV4 };
inline constexpr Isa kIsas[] = {Isa::kGeneric, Isa::kV2, Isa::kV3, Isa::kV4};

// The table of a unit, or null when it was not compiled in or this CPU cannot run it.
const KernelTable* KernelsFor(Isa isa);
// The best table for this CPU; the choice is made at the first call and never changes.
const KernelTable& ActiveKernels();

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_KERNELS_KERNELS_H_
