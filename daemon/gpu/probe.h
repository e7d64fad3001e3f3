// Whether a GPU computes what the CPU computes: encodes and combines a small chunk on both. A
// device that does not is not used, since clusters would disagree.
#ifndef CAUSEWAY_DAEMON_GPU_PROBE_H_
#define CAUSEWAY_DAEMON_GPU_PROBE_H_

#include "absl/status/status.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::gpu {

// DATA_LOSS names the codec whose bytes differ.
absl::Status Probe(GpuCodec& codec);

}  // namespace causeway::gpu

#endif  // CAUSEWAY_DAEMON_GPU_PROBE_H_
