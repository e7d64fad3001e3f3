// Low rank (PowerSGD): of each matrix in a chunk only two thin factors travel, P of rows x rank and
// Q of columns x rank, whose product stands for it.
//
//   P = orthonormal basis of M Q;  Q = M^T P;  decoded = P Q^T;  residual = M - decoded
//
// Q starts from the last round's, which the sender keeps (warm start), so that one step a round
// follows what changes slowly; without it two steps are made from noise.
//
// As published, clusters sum their P, then with the common basis their Q: two sums a round. Here
// each contribution is decoded by itself before it is added, so each sends factors of its own, in
// one pass, and the sum needs no common basis. A matrix is what the sender says it is
// (MatrixPiece): a chunk names its pieces, so that receivers need no shapes. Chunks cut matrices
// between rows; a piece is a matrix of its own, which costs bytes (Q again), not accuracy.
//
// codec.cc forwards to the functions below; the contract of each is that of its namesake in
// codec.h. Pure functions; any thread. Does not: know schemas (the endpoint names the pieces).
#ifndef CAUSEWAY_COMPRESSION_LOW_RANK_H_
#define CAUSEWAY_COMPRESSION_LOW_RANK_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "compression/chunk_header.h"
#include "compression/codec.h"
#include "compression/kernels/kernels.h"

namespace causeway::compression {

// A value of 2^100 or more counts as non-finite: no sum then leaves the range.
inline constexpr uint32_t kLowRankHugeBits = 0x71800000u;
// Pieces of a chunk of n elements: tensors begin on boundaries of so many, and the first may lead
// with the rest of a row.
inline constexpr uint32_t kPieceElementsMin = 256;
constexpr uint32_t PiecesMax(uint32_t n) { return n / kPieceElementsMin + 2; }

// The piece for a stretch of `elements` that is a matrix of so many columns (0: none): itself where
// factors are smaller than bf16 values, else folded to nearly a square where that helps, else
// plain.
MatrixPiece PieceOf(uint32_t elements, uint32_t columns, uint32_t rank);

// Whether pieces are ones that a chunk of n elements can be coded by: in all n elements, none
// empty, at most PiecesMax, factors smaller than their values.
bool LegalPieces(absl::Span<const MatrixPiece> pieces, uint32_t n, uint32_t rank);

// Elements of EncodeInput::warm.
size_t WarmElements(uint32_t rank, absl::Span<const MatrixPiece> pieces);

// Bytes of a chunk of these pieces, exactly; and of one whose pieces are not known, at most.
size_t LowRankSize(uint32_t rank, absl::Span<const MatrixPiece> pieces);
size_t LowRankSizeMax(uint32_t n);
// Bits an element of a chunk that is one square matrix.
double LowRankBits(uint32_t rank);

size_t EncodeLowRank(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                     absl::Span<uint8_t> out, EncodeStats* stats);
absl::Status CheckLowRank(const CodecSpec& expected, uint32_t expected_n,
                          absl::Span<const uint8_t> bytes);
void DecodeLowRank(const KernelTable& kernels, absl::Span<const uint8_t> bytes, bool accumulate,
                   float weight, float* out);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_LOW_RANK_H_
