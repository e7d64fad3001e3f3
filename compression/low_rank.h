// Low-rank contributions of matrices (PowerSGD): a matrix M becomes two thin factors, P of rows x
// rank and Q of columns x rank, whose product stands for it.
//
//   P = orthonormal basis of M Q;  Q = M^T P;  decoded = P Q^T;  residual = M - decoded
//
// Q starts from the last round's (warm start), so that one step a round follows what changes
// slowly.
//
// As published, clusters sum their P, then with the common basis their Q: two sums a round. Here
// each contribution is decoded by itself before it is added, so each sends factors of its own, in
// one pass, and the sum needs no common basis. The unit is the matrix: cutting it into pieces that
// know nothing of its rows costs most of what rank buys (tests/bench/RESULTS.md), so this is no
// codec of chunks, which are cut at fixed lengths. It works on whole matrices above them.
//
// Pure functions; any thread; all memory is the caller's. Decoding is a fixed sequence of fp32
// operations, none fused, so its bits are the same everywhere. Factors are bf16, row by row: P,
// then Q.
#ifndef CAUSEWAY_COMPRESSION_LOW_RANK_H_
#define CAUSEWAY_COMPRESSION_LOW_RANK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace causeway::compression {

inline constexpr uint32_t kLowRankMax = 64;
inline constexpr uint32_t kLowRankSideMax = 1u << 20;  // rows, columns

struct LowRankShape {
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t rank = 0;  // at most the shorter side

  size_t elements() const { return size_t{rows} * columns; }
  size_t factor_elements() const { return (size_t{rows} + columns) * rank; }
  size_t warm_elements() const { return size_t{columns} * rank; }
};

// INVALID_ARGUMENT names the side or rank that is out of bounds.
absl::Status ValidateLowRank(const LowRankShape& shape);

// A first Q for LowRankEncode, the same everywhere; columns x rank.
void LowRankStart(const LowRankShape& shape, absl::Span<float> warm);

// Encodes `values` (rows x columns, row by row; residual already added). `warm` is the last round's
// Q and becomes this one's; what comes of it counts only if the round commits, as with residuals.
// `residual` (empty: not wanted) gets fl(value - decoded). False: a value was Inf, NaN or 2^110 and
// more; the factors are then NaN, so that the result says so everywhere, the residual is zero and
// `warm` stays.
bool LowRankEncode(const LowRankShape& shape, absl::Span<const float> values,
                   absl::Span<float> warm, absl::Span<uint16_t> factors,
                   absl::Span<float> residual);

// Whether factors from a peer may be decoded: their number, and such as an encoder makes (P at most
// 1, Q at most 2^120, so that every sum is finite), or all NaN, which says that values were
// non-finite
// (`nonfinite`). INVALID_ARGUMENT otherwise.
absl::Status CheckLowRank(const LowRankShape& shape, absl::Span<const uint16_t> factors,
                          bool* nonfinite);

// acc = fl(acc + fl(weight * d)), d = P Q^T summed over the rank in ascending order from 0, each
// product and sum rounded; NaNs canonical. Only after CheckLowRank.
void LowRankAccumulate(const LowRankShape& shape, absl::Span<const uint16_t> factors, float weight,
                       absl::Span<float> acc);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_LOW_RANK_H_
