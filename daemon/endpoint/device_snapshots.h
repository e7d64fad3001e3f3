// A trainer's memory on a device in which snapshots may lie, with what encoding from there takes.
//
// Shared: by whoever the trainer is (daemon/run), its operations, and contributions and scans on
// workers; with the last of them the memory is unmapped, on that one's thread. So a trainer's death
// takes nothing from under what is being read: the allocation stays as long as it is mapped here.
// Any thread may read; what lies in the memory is the trainer's, which may scribble at any time.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_DEVICE_SNAPSHOTS_H_
#define CAUSEWAY_DAEMON_ENDPOINT_DEVICE_SNAPSHOTS_H_

#include <memory>

#include "daemon/endpoint/scratch.h"
#include "daemon/gpu/gpu_codec.h"

namespace causeway::endpoint {

struct DeviceSnapshots {
  std::shared_ptr<gpu::GpuCodec> gpu;  // shared with the daemon
  std::unique_ptr<gpu::DeviceMemory> memory;
  std::unique_ptr<ScratchSet> scratch;  // of host memory, for codecs without kernels
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_DEVICE_SNAPSHOTS_H_
