// See cuda_memory.h. The driver's own functions are looked up when they are needed, so that nothing
// links against the driver, which machines without a GPU do not have.
#include "daemon/gpu/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/gpu/cuda_error.h"

namespace causeway::gpu {
namespace {

// What the runtime gave, with the runtime's way to give it back: cudaFree, cudaIpcCloseMemHandle.
class RuntimeMemory final : public DeviceMemory {
 public:
  using Release = cudaError_t (*)(void* data);
  RuntimeMemory(int device, void* data, uint64_t size, Release release)
      : device_(device), data_(data), size_(size), release_(release) {}
  ~RuntimeMemory() override {
    cudaSetDevice(device_);
    release_(data_);
  }
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  uint64_t size() const override { return size_; }

 private:
  const int device_;
  void* const data_;
  const uint64_t size_;
  const Release release_;
};

template <typename Function>
absl::Status FromDriver(const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    return absl::UnavailableError(absl::StrCat("GPU: the driver has no ", name));
  }
  *function = reinterpret_cast<Function>(found);
  return absl::OkStatus();
}

// Of the driver's interface, what mapping a foreign allocation takes.
struct Driver {
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free_address;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemRelease) release;
  decltype(&cuMemGetAddressRange) address_range;

  static absl::StatusOr<Driver> Load() {
    Driver d = {};
    absl::Status status;
    const auto load = [&status](const char* name, auto* function) {
      if (status.ok()) status = FromDriver(name, function);
    };
    load("cuMemImportFromShareableHandle", &d.import_handle);
    load("cuMemGetAllocationPropertiesFromHandle", &d.properties);
    load("cuMemGetAllocationGranularity", &d.granularity);
    load("cuMemAddressReserve", &d.reserve);
    load("cuMemAddressFree", &d.free_address);
    load("cuMemMap", &d.map);
    load("cuMemUnmap", &d.unmap);
    load("cuMemSetAccess", &d.set_access);
    load("cuMemRelease", &d.release);
    load("cuMemGetAddressRange", &d.address_range);
    if (!status.ok()) return status;
    return d;
  }
};

absl::Status Refused(const char* step, CUresult code) {
  return absl::InvalidArgumentError(
      absl::StrCat("shared device memory: ", step, " failed with CUDA driver error ", code,
                   "; is it an allocation of cuMemCreate with the size that it says?"));
}

// One physical allocation, mapped. Undone step by step, whatever steps were done.
class VmmMemory final : public DeviceMemory {
 public:
  VmmMemory(int device, const Driver& driver) : device_(device), driver_(driver) {}
  ~VmmMemory() override {
    cudaSetDevice(device_);
    if (mapped_) driver_.unmap(address_, size_);
    if (address_ != 0) driver_.free_address(address_, size_);
    if (imported_) driver_.release(handle_);
  }

  absl::Status Map(const SharedAllocation& shared) {
    CUresult code = driver_.import_handle(
        &handle_, reinterpret_cast<void*>(static_cast<intptr_t>(shared.descriptor)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (code != CUDA_SUCCESS) return Refused("importing the descriptor", code);
    imported_ = true;
    CUmemAllocationProp properties = {};
    code = driver_.properties(&properties, handle_);
    if (code != CUDA_SUCCESS) return Refused("asking for its properties", code);
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties.location.id != device_) {
      return absl::InvalidArgumentError(
          "shared device memory: it lies elsewhere than on the GPU that it names");
    }
    size_t granularity = 0;
    code = driver_.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code != CUDA_SUCCESS) return Refused("asking for its granularity", code);
    if (granularity == 0 || shared.bytes % granularity != 0) {
      return absl::InvalidArgumentError(absl::StrCat("shared device memory: ", shared.bytes,
                                                     " bytes are no multiple of the granularity, ",
                                                     granularity));
    }
    size_ = shared.bytes;
    code = driver_.reserve(&address_, size_, 0, 0, 0);
    if (code != CUDA_SUCCESS) return Refused("reserving addresses", code);
    code = driver_.map(address_, size_, 0, handle_, 0);  // fails where the allocation is smaller
    if (code != CUDA_SUCCESS) return Refused("mapping", code);
    mapped_ = true;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    code = driver_.set_access(address_, size_, &access, 1);
    if (code != CUDA_SUCCESS) {
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  // not every device has read-only maps
      code = driver_.set_access(address_, size_, &access, 1);
    }
    if (code != CUDA_SUCCESS) return Refused("opening access", code);
    return absl::OkStatus();
  }

  std::byte* data() const override { return reinterpret_cast<std::byte*>(address_); }
  uint64_t size() const override { return size_; }

 private:
  const int device_;
  const Driver driver_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  size_t size_ = 0;
  bool imported_ = false;
  bool mapped_ = false;
};

absl::StatusOr<std::unique_ptr<DeviceMemory>> ImportIpc(int device, const Driver& driver,
                                                        const SharedAllocation& shared) {
  cudaIpcMemHandle_t handle;
  static_assert(sizeof(handle) == sizeof(shared.ipc));
  std::memcpy(&handle, shared.ipc.data(), sizeof(handle));
  void* data = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::InvalidArgumentError(
        absl::StrCat("shared device memory: opening the IPC handle: ", cudaGetErrorString(error)));
  }
  auto memory = std::make_unique<RuntimeMemory>(device, data, shared.bytes, cudaIpcCloseMemHandle);
  CUdeviceptr base = 0;
  size_t size = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const CUresult code = driver.address_range(&base, &size, address);
  if (code != CUDA_SUCCESS) return Refused("asking for its range", code);
  if (address - base > size || size - (address - base) < shared.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("shared device memory: ", shared.bytes,
                                                   " bytes were named, ", size - (address - base),
                                                   " are there"));
  }
  return memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateOnDevice(int device, uint64_t bytes) {
  void* data = nullptr;
  absl::Status status =
      CudaStatus(cudaMalloc(&data, bytes), absl::StrCat("allocating ", bytes, " bytes"));
  if (!status.ok()) return status;
  auto memory = std::make_unique<RuntimeMemory>(device, data, bytes, cudaFree);
  status = CudaStatus(cudaMemset(data, 0, bytes), "clearing memory");
  if (!status.ok()) return status;
  return memory;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> ImportToDevice(int device,
                                                             const SharedAllocation& shared) {
  absl::StatusOr<Driver> driver = Driver::Load();
  if (!driver.ok()) return driver.status();
  if (shared.kind == SharedAllocation::Kind::kIpc) return ImportIpc(device, *driver, shared);
  auto memory = std::make_unique<VmmMemory>(device, *driver);
  const absl::Status mapped = memory->Map(shared);
  if (!mapped.ok()) return mapped;
  return memory;
}

}  // namespace causeway::gpu
