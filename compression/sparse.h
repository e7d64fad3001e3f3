// Codecs that send only the largest values of a chunk: topk (of the whole chunk) and btopk (of each
// block of 4096, as SparseLoCo does). An index set, and the kept values encoded by int4 or 2bit.
//
// codec.cc forwards to these functions; the contract of each is that of its namesake in codec.h.
// What is not sent stays in the residual, so both only make sense with error feedback or for
// gradients.
#ifndef CAUSEWAY_COMPRESSION_SPARSE_H_
#define CAUSEWAY_COMPRESSION_SPARSE_H_

#include "compression/chunk_header.h"
#include "compression/codec.h"
#include "compression/kernels/kernels.h"

namespace causeway::compression {

// Kept values of a chunk of n elements.
uint32_t SparseCount(const CodecSpec& spec, uint32_t n);
size_t SparseSizeMax(const CodecSpec& spec, uint32_t n);
size_t EncodeSparse(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                    absl::Span<uint8_t> out, EncodeStats* stats);
absl::Status CheckSparse(const CodecSpec& expected, uint32_t expected_n,
                         absl::Span<const uint8_t> bytes);
void DecodeSparse(const KernelTable& kernels, absl::Span<const uint8_t> bytes, bool accumulate,
                  float weight, float* out);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_SPARSE_H_
