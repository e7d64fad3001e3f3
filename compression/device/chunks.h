// Between encoded chunks and kernel launches: batches for a codec, and what the host adds to chunks
// that a device encoded (header and checksum). Pure functions, any thread; no CUDA in here.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_CHUNKS_H_
#define CAUSEWAY_COMPRESSION_DEVICE_CHUNKS_H_

#include "absl/types/span.h"
#include "compression/codec.h"
#include "compression/device/batch.h"

namespace causeway::compression::device {

// Whether there are kernels for this codec. The others are the CPU's: 2bit, cosine, topk, btopk,
// patch, bf16x, fp32x.
bool HasKernels(const CodecSpec& spec);

// Bytes from one chunk of a batch to the next.
uint32_t ChunkStride(const CodecSpec& spec);

// A batch of `elements` values with the codec's part filled in; pointers, dtypes, seeds, weights
// are the caller's. elements <= kBatchChunksMax x kChunkElements.
EncodeBatch EncodeBatchOf(const CodecSpec& spec, uint64_t elements);
CombineBatch CombineBatchOf(const CodecSpec& spec, uint64_t elements);

// Turns what a kernel left of one chunk of n elements into the chunk that EncodeChunk would have
// made, and reads its counters into `stats`. Returns its bytes.
size_t FinishChunk(const CodecSpec& spec, DType snapshot_dtype, uint32_t n, uint32_t seed,
                   absl::Span<uint8_t> chunk, EncodeStats* stats);

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_CHUNKS_H_
