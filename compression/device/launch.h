// Starts kernels on a caller's CUDA stream. Returns at once; the stream orders the work.
//
// Any thread; the current device is the stream's. Results are 0 or a cudaError_t. Only in builds
// with CUDA. Batches come from chunks.h, which also says for which codecs there is a kernel.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_LAUNCH_H_
#define CAUSEWAY_COMPRESSION_DEVICE_LAUNCH_H_

#include "compression/device/batch.h"

namespace causeway::compression::device {

// Clears the counters in the chunks' headers, then encodes. `stream` is a cudaStream_t.
int LaunchEncode(CodecKind kind, const EncodeBatch& batch, void* stream);
int LaunchCombine(CodecKind kind, const CombineBatch& batch, void* stream);
// Clears first_to_end, then scans.
int LaunchScan(const ScanBatch& batch, void* stream);

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_LAUNCH_H_
