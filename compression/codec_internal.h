// The codec with an explicit table of kernels: for tests that compare units, and for the benches.
#ifndef CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_
#define CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_

#include "compression/chunk_header.h"
#include "compression/codec.h"
#include "compression/kernels/kernels.h"

namespace causeway::compression {

size_t EncodeChunkWith(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                       absl::Span<uint8_t> out, EncodeStats* stats);
void DecodeChunkWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float* out);
void DecodeAccumulateWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float weight,
                          float* acc);

// True for codecs whose chunks sparse.h makes.
constexpr bool IsSparse(CodecKind kind) {
  return kind == CodecKind::kTopK || kind == CodecKind::kBlockTopK || kind == CodecKind::kPatch;
}

// Codecs whose chunks are coded as a whole: no block of a chunk stands for itself.
constexpr bool IsWhole(CodecKind kind) { return IsSparse(kind) || kind == CodecKind::kLowRank; }

// What the header's seed field holds where no seed is needed: what else the codec agreed on.
constexpr uint32_t AgreedNumber(const CodecSpec& spec) {
  return spec.kind == CodecKind::kLowRank ? spec.rank : spec.keep;
}

// Magnitudes whose bits are at least this count as non-finite.
uint32_t NonFiniteBits(const CodecSpec& spec);

// What an encoder of this codec stores as a scale: 0, `nonfinite`, or a value from smallest to
// largest. For codecs with two bf16 scales a block the limits hold for each. Not for casts.
struct ScaleLimits {
  uint16_t smallest;
  uint16_t largest;
  uint16_t nonfinite;
};
ScaleLimits ScaleLimitsOf(CodecKind kind);

// Steps that all codecs share. JobOf: pointers at element `begin`, planes and sizes left to the
// caller.
EncodeJob JobOf(const CodecSpec& spec, const EncodeInput& input, uint32_t begin);
// The header without plane sizes; FinishChunk writes it with the checksum and returns the chunk's
// bytes.
ChunkHeader HeaderOf(const CodecSpec& spec, const EncodeInput& input, bool nonfinite);
size_t FinishChunk(ChunkHeader header, absl::Span<uint8_t> out);
// Fields other than plane sizes and checksum.
absl::Status CheckHeader(const CodecSpec& expected, uint32_t expected_n, const ChunkHeader& header);
// Legal scales in the first `used` bytes, then zeros; whether any marks a non-finite block.
absl::Status CheckScalePlane(CodecKind kind, absl::Span<const uint8_t> plane, uint32_t used,
                             bool* nonfinite);
bool PaddingIsZero(absl::Span<const uint8_t> plane, size_t used);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_
