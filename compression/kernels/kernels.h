// The table of inner loops that one instruction-set unit provides, and the choice among units.
//
// A unit is kernels_impl.h compiled with other flags; all units produce the same bytes (tests
// compare them). Does not: check anything. Sizes and contents were checked by codec.cc.
#ifndef CAUSEWAY_COMPRESSION_KERNELS_KERNELS_H_
#define CAUSEWAY_COMPRESSION_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace causeway::compression {

// Whole blocks to encode. Pointers stand at the first element of the job.
struct EncodeJob {
  const float* base;  // null: none
  const void* snapshot;
  DType snapshot_dtype;
  const void* residual_in;  // null: none
  void* residual_out;       // null: not wanted
  DType residual_dtype;     // of both
  float decay;              // residual_in counts as fl(decay * residual_in)
  uint8_t* scales;
  uint8_t* codes;
  uint32_t n;        // elements: a multiple of block
  uint32_t block;    // elements; 1 for casts
  uint32_t present;  // of the n elements, those before the zeros that complete the last block
  bool stochastic;
  uint32_t seed;
  uint32_t first;  // index in the chunk of the first element
};

// Whole blocks to decode.
struct DecodeJob {
  const uint8_t* scales;
  const uint8_t* codes;
  uint32_t n;
  uint32_t block;
  bool accumulate;  // false: out = d; true: out = fl(out + fl(weight * d))
  float weight;
  float* out;
};

// Rows of a matrix times thin ones, for low_rank.cc. `right` has a row for each of the rank's
// columns.
struct MatrixJob {
  uint32_t rows;
  uint32_t columns;
  uint32_t rank;
};

// Returns true when a block (or a cast's value) was non-finite.
using EncodeFn = bool (*)(const EncodeJob& job);
using DecodeFn = void (*)(const DecodeJob& job);

struct KernelTable {
  const char* name;
  EncodeFn encode[kCodecKinds];  // null for codecs made of others (sparse.h)
  DecodeFn decode[kCodecKinds];
  // values[0..n) of the job, as they are encoded; any n.
  void (*gather)(const EncodeJob& job, uint32_t n, float* values);
  // Largest magnitude as bits (sign cleared; NaN sorts highest) of n words of 32 or 16 bits.
  uint32_t (*largest_magnitude_32)(const uint8_t* words, size_t n);
  uint16_t (*largest_magnitude_16)(const uint8_t* words, size_t n);
  // left (rows x rank) = values (rows x columns) times the transpose of right (rank x columns);
  // sums in 32 lanes (FORMAT.md).
  void (*project)(const MatrixJob& job, const float* values, const float* right, float* left);
  // right (rank x columns) += the transpose of left times values, row by row.
  void (*project_back)(const MatrixJob& job, const float* values, const float* left, float* right);
  // The product of left and right, summed over the rank in order: out = it, or out += weight * it.
  void (*product)(const MatrixJob& job, const float* left, const float* right, bool accumulate,
                  float weight, float* out);

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
