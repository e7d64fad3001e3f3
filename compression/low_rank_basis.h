// An orthonormal basis of a few long columns, for low_rank.cc. Pure functions.
#ifndef CAUSEWAY_COMPRESSION_LOW_RANK_BASIS_H_
#define CAUSEWAY_COMPRESSION_LOW_RANK_BASIS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace causeway::compression {

// Makes the columns of m (rows x rank, row by row) orthonormal, in binary64 and in a fixed order;
// those that depend on earlier ones become zero. Modified Gram-Schmidt, twice, which keeps them
// orthogonal where they nearly coincide.
void Orthonormalise(uint32_t rows, uint32_t rank, absl::Span<float> m);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_LOW_RANK_BASIS_H_
