// What the shim calls of the CUDA driver, declared here so that it is built where no toolkit is.
//
// The driver's own names, types and numbers (its ABI is stable);
// tests/unit/client/cuda_header_test.cc holds them against cuda.h where there is one. The library
// is found at run time (cuda_library.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::client::cuda {

using Result = int;  // 0: success
using DeviceHandle = int;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;  // null: the legacy default stream
using Event = struct EventHandle*;
using Pointer = unsigned long long;     // NOLINT: the driver's own type
using Allocation = unsigned long long;  // NOLINT

struct Uuid {
  char bytes[16];
};

struct Location {
  int type = 0;
  int id = 0;
};

struct AllocationProperties {
  int type = 0;
  int handle_types = 0;
  Location location;
  void* metadata = nullptr;
  unsigned char flags[8] = {};
};

struct Access {
  Location location;
  int flags = 0;
};

inline constexpr Result kNotReady = 600;
inline constexpr int kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingNoTiming = 1 | 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kPinned = 1;           // allocation type
inline constexpr int kPosixDescriptor = 1;  // handle type
inline constexpr int kOnDevice = 1;         // location type
inline constexpr int kReadWrite = 3;        // access
inline constexpr int kCapturingNot = 0;
inline constexpr int kHasVirtualMemory = 102;  // device attributes
inline constexpr int kHasPosixDescriptors = 103;

// X(member, "symbol", parameters): every entry point that is used.
#define CAUSEWAY_CUDA_CALLS(X)                                                                 \
  X(init, "cuInit", (unsigned))                                                                \
  X(error_name, "cuGetErrorName", (Result, const char**))                                      \
  X(device_get, "cuDeviceGet", (DeviceHandle*, int))                                           \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, DeviceHandle))                       \
  X(device_uuid, "cuDeviceGetUuid_v2", (Uuid*, DeviceHandle))                                  \
  X(context_retain, "cuDevicePrimaryCtxRetain", (Context*, DeviceHandle))                      \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (DeviceHandle))                           \
  X(context_push, "cuCtxPushCurrent_v2", (Context))                                            \
  X(context_pop, "cuCtxPopCurrent_v2", (Context*))                                             \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned))                                      \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream))                                            \
  X(stream_wait, "cuStreamWaitEvent", (Stream, Event, unsigned))                               \
  X(stream_capturing, "cuStreamIsCapturing", (Stream, int*))                                   \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                       \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                         \
  X(event_destroy, "cuEventDestroy_v2", (Event))                                               \
  X(event_record, "cuEventRecord", (Event, Stream))                                            \
  X(event_query, "cuEventQuery", (Event))                                                      \
  X(event_synchronize, "cuEventSynchronize", (Event))                                          \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, Pointer, size_t, Stream))                    \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (Pointer, const void*, size_t, Stream))            \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Pointer, Pointer, size_t, Stream))                \
  X(host_register, "cuMemHostRegister_v2", (void*, size_t, unsigned))                          \
  X(host_unregister, "cuMemHostUnregister", (void*))                                           \
  X(memory_allocate, "cuMemAlloc_v2", (Pointer*, size_t))                                      \
  X(memory_set, "cuMemsetD8Async", (Pointer, unsigned char, size_t, Stream))                   \
  X(memory_free, "cuMemFree_v2", (Pointer))                                                    \
  X(granularity, "cuMemGetAllocationGranularity", (size_t*, const AllocationProperties*, int)) \
  X(create, "cuMemCreate", (Allocation*, size_t, const AllocationProperties*, uint64_t))       \
  X(release, "cuMemRelease", (Allocation))                                                     \
  X(export_handle, "cuMemExportToShareableHandle", (void*, Allocation, int, uint64_t))         \
  X(reserve, "cuMemAddressReserve", (Pointer*, size_t, size_t, Pointer, uint64_t))             \
  X(unreserve, "cuMemAddressFree", (Pointer, size_t))                                          \
  X(map, "cuMemMap", (Pointer, size_t, size_t, Allocation, uint64_t))                          \
  X(unmap, "cuMemUnmap", (Pointer, size_t))                                                    \
  X(set_access, "cuMemSetAccess", (Pointer, size_t, const Access*, size_t))

struct Calls {
#define CAUSEWAY_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
  CAUSEWAY_CUDA_CALLS(CAUSEWAY_CUDA_MEMBER)
#undef CAUSEWAY_CUDA_MEMBER
};

}  // namespace causeway::client::cuda
