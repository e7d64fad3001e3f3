// Compiled where the CUDA toolkit is: the shim's declarations of the driver are the driver's own.
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "client/shim/cuda_api.h"

namespace causeway::client::cuda {
namespace {

static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(DeviceHandle) == sizeof(CUdevice));
static_assert(sizeof(Pointer) == sizeof(CUdeviceptr));
static_assert(sizeof(Allocation) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(Result) == sizeof(CUresult));
static_assert(sizeof(Location) == sizeof(CUmemLocation));
static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(Access) == sizeof(CUmemAccessDesc));
static_assert(offsetof(Access, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventBlockingNoTiming == (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kPosixDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kOnDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kCapturingNot == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kHasVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kHasPosixDescriptors ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == 0);

// The same number of parameters, each of the same size.
template <typename Mine, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...)> {};
#define SAME(member, function) \
  static_assert(SameCall<decltype(Calls::member), decltype(&function)>())
SAME(init, cuInit);
SAME(error_name, cuGetErrorName);
SAME(device_get, cuDeviceGet);
SAME(device_attribute, cuDeviceGetAttribute);
SAME(device_uuid, cuDeviceGetUuid);
SAME(context_retain, cuDevicePrimaryCtxRetain);
SAME(context_release, cuDevicePrimaryCtxRelease);
SAME(context_push, cuCtxPushCurrent);
SAME(context_pop, cuCtxPopCurrent);
SAME(stream_create, cuStreamCreate);
SAME(stream_destroy, cuStreamDestroy);
SAME(stream_wait, cuStreamWaitEvent);
SAME(stream_capturing, cuStreamIsCapturing);
SAME(stream_synchronize, cuStreamSynchronize);
SAME(event_create, cuEventCreate);
SAME(event_destroy, cuEventDestroy);
SAME(event_record, cuEventRecord);
SAME(event_query, cuEventQuery);
SAME(event_synchronize, cuEventSynchronize);
SAME(copy_to_host, cuMemcpyDtoHAsync);
SAME(copy_to_device, cuMemcpyHtoDAsync);
SAME(copy_on_device, cuMemcpyDtoDAsync);
SAME(host_register, cuMemHostRegister);
SAME(host_unregister, cuMemHostUnregister);
SAME(memory_allocate, cuMemAlloc);
SAME(memory_set, cuMemsetD8Async);
SAME(memory_free, cuMemFree);
SAME(granularity, cuMemGetAllocationGranularity);
SAME(create, cuMemCreate);
SAME(release, cuMemRelease);
SAME(export_handle, cuMemExportToShareableHandle);
SAME(reserve, cuMemAddressReserve);
SAME(unreserve, cuMemAddressFree);
SAME(map, cuMemMap);
SAME(unmap, cuMemUnmap);
SAME(set_access, cuMemSetAccess);
#undef SAME

}  // namespace
}  // namespace causeway::client::cuda
