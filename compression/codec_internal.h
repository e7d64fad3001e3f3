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

// Bits of the largest finite bf16 scale that an encoder of this codec stores.
uint16_t LargestScale(CodecKind kind);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_CODEC_INTERNAL_H_
