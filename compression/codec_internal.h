// The codec with an explicit table of kernels: for tests that compare units, and for the benches.
#ifndef CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_
#define CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_

#include "compression/codec.h"
#include "compression/kernels/kernels.h"

namespace causeway::compression {

size_t EncodeChunkWith(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                       absl::Span<uint8_t> out, EncodeStats* stats);
void DecodeChunkWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float* out);
void DecodeAccumulateWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float weight,
                          float* acc);

// Magnitudes whose bits are at least this count as non-finite.
uint32_t NonFiniteBits(CodecKind kind);

// What an encoder of this codec stores as a scale: 0, `nonfinite`, or a value from smallest to
// largest. For codecs with two bf16 scales a block the limits hold for each. Not for casts.
struct ScaleLimits {
  uint16_t smallest;
  uint16_t largest;
  uint16_t nonfinite;
};
ScaleLimits ScaleLimitsOf(CodecKind kind);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_
