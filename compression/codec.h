// The codecs' public face: one chunk of fp32 values (at most kChunkElements) to packed bytes and
// back.
//
// Pure functions over spans: no I/O, no threads, no locks, no state; every function may be called
// from any thread at any time on different buffers. FORMAT.md is the byte-level document; rules
// that make every CPU and GPU produce the same bytes are in block_math.h.
//
// How to use it:
//   sender:    std::vector<uint8_t> buffer(EncodedSizeMax(spec, n));
//              size_t size = EncodeChunk(spec, input, absl::MakeSpan(buffer), &stats);
//   receiver:  absl::Status status = CheckChunk(spec, n, bytes);      // hostile until this is Ok
//              DecodeChunk(bytes, out);  or  DecodeAccumulate(bytes, weight, acc);
// entropy.h adds the optional lossless stage: a receiver that calls OpenChunk in place of
// CheckChunk handles both.
//
// Does not: choose a codec (daemon/planning), keep residuals (the caller swaps residual_out in on
// commit only), or convert byte order (little-endian hosts only).
#ifndef CAUSEWAY_COMPRESSION_CODEC_H_
#define CAUSEWAY_COMPRESSION_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compression/kinds.h"

namespace causeway::compression {

// What clusters agree on before they exchange. Two clusters with equal ToString() encode alike.
struct CodecSpec {
  CodecKind kind = CodecKind::kFp32;
  uint16_t block = 0;           // elements that share a scale: a power of two; 0 for casts
  bool error_feedback = false;  // the sender keeps what encoding lost and adds it to the next value
  bool stochastic = false;      // unbiased rounding; only sensible without error feedback
  bool entropy = false;         // chunks may be packed by the lossless stage (entropy.h)
  uint16_t keep = 0;            // topk: values kept of 10,000; btopk: values kept of a block
  uint8_t value_bits = 0;       // topk, btopk: 4 (int4) or 2 (2bit)
  uint8_t rank = 0;             // lowrank: columns of each factor, at most kRankMax
  uint16_t decay = 1000;  // thousandths by which the old residual is multiplied before it is added

  // "int4:b64:ef:zstd", "topk:k100:v4:ef:decay950": the name, then options in this fixed order.
  // Parse(ToString()) is the identity.
  std::string ToString() const;
  // Accepts options in any order; a missing block is the codec's default. InvalidArgument names the
  // unknown word and the known ones.
  static absl::StatusOr<CodecSpec> Parse(absl::string_view text);
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// What a codec promises. Figures are for its default block.
struct CodecTraits {
  const char* name;
  uint16_t default_block;     // 0: a cast, no blocks
  uint8_t code_bits;          // bits of one code
  uint8_t scale_bits;         // bits of one block's scale
  bool stochastic_supported;  // offers unbiased rounding (option "sr")
  bool residual_pays;         // error feedback lowers the error of a sum of rounds noticeably
  double error_bound;         // |value - decoded| <= error_bound x the largest |value| of the block
                              // (casts: x |value|; codecs without blocks: of the chunk), for
                              // values in the codec's normal range
};
const CodecTraits& Traits(CodecKind kind);
// Bits per element of a full chunk, scales included, header and entropy stage not; for topk at
// most; for lowrank those of a square matrix, others take more.
double BitsPerElement(const CodecSpec& spec);

// Ok, or InvalidArgument naming the option that the codec does not have.
absl::Status ValidateSpec(const CodecSpec& spec);

// Upper bound in bytes of one encoded chunk of n elements, header included.
size_t EncodedSizeMax(const CodecSpec& spec, uint32_t n);

// A stretch of a chunk that lowrank codes by itself: a matrix of so many columns, row by row, its
// last row perhaps cut short; or, with 0 columns, values that it sends as they are (bf16).
struct MatrixPiece {
  uint32_t elements = 0;
  uint32_t columns = 0;

  friend bool operator==(const MatrixPiece&, const MatrixPiece&) = default;
};

// What the local endpoint holds for one chunk. All pointers are borrowed for the call.
//   value[i] = fl(fl(base[i] - snapshot[i]) + fl(decay * residual_in[i]));   base null: snapshot[i]
//   in place of the difference
// The snapshot may change under the encoder's feet (a trainer that breaks the contract): values
// become undefined, memory safety and the chunk's validity do not.
struct EncodeInput {
  const float* base = nullptr;
  const void* snapshot = nullptr;
  DType snapshot_dtype = DType::kFp32;  // kFp32, kBf16 or kFp16
  const void* residual_in = nullptr;    // null: zero
  void* residual_out = nullptr;         // null: not wanted; must not alias residual_in; n elements
  DType residual_dtype = DType::kBf16;  // kBf16 or kFp32, of both residuals
  uint32_t n = 0;                       // <= kChunkElements; 0 gives a chunk that is a header only
  uint32_t seed = 0;  // of stochastic rounding; differs per (round, chunk, cluster)
  // Of lowrank alone. What matrices the chunk holds (LegalPieces); none: it is taken for one.
  absl::Span<const MatrixPiece> pieces;
  // Where the last round's factors were left, to begin with, and this round's are left (of
  // WarmElements; zeros at first); null: each chunk begins anew. Worth nothing to receivers.
  uint16_t* warm = nullptr;
};

struct EncodeStats {
  uint64_t nonfinite = 0;                     // values that are Inf, NaN or too large for the codec
  uint32_t first_nonfinite = kChunkElements;  // index of the first of them, to name the tensor
};

// Encodes one chunk; returns its bytes. `out` holds at least EncodedSizeMax. The spec is valid
// (ValidateSpec). A block with a non-finite value decodes to NaN as a whole and its residual is
// zero.
size_t EncodeChunk(const CodecSpec& spec, const EncodeInput& input, absl::Span<uint8_t> out,
                   EncodeStats* stats);

// Every check that makes `bytes` safe to decode as `expected_n` elements of `expected`: header,
// sizes, reserved bits, scales, padding and crc32c. DataLoss for a checksum that differs,
// InvalidArgument otherwise.
absl::Status CheckChunk(const CodecSpec& expected, uint32_t expected_n,
                        absl::Span<const uint8_t> bytes);

// True when the (checked) chunk says that the sender saw non-finite values.
bool ChunkNonFinite(absl::Span<const uint8_t> bytes);

// out[0..n) = decoded values. Only after CheckChunk. NaNs are canonical (0x7fc00000).
void DecodeChunk(absl::Span<const uint8_t> bytes, float* out);

// acc[i] = fl(acc[i] + fl(weight * decoded[i])), never fused, NaNs canonical. Only after
// CheckChunk.
void DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight, float* acc);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_CODEC_H_
