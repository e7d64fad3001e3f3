// See cuda_codec.h.
#include "daemon/gpu/cuda_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/device/chunks.h"
#include "compression/device/launch.h"
#include "daemon/gpu/cuda_error.h"
#include "daemon/gpu/cuda_memory.h"

namespace causeway::gpu {
namespace {

namespace device = compression::device;

constexpr int kComputeCapabilityMin = 8;  // the oldest that the kernels are compiled for
// Scanned at once: bounded by the words that a slot has for the answer.
constexpr uint64_t kScanElementsMax =
    kSlotPackedBytes / sizeof(uint32_t) / 2 * compression::kChunkElements;

}  // namespace

absl::StatusOr<std::shared_ptr<CudaCodec>> CudaCodec::Create(
    int device, const std::shared_ptr<memory::Account>& account) {
  cudaDeviceProp properties;
  absl::Status status =
      CudaStatus(cudaGetDeviceProperties(&properties, device), "reading its properties");
  if (!status.ok()) return status;
  if (properties.major < kComputeCapabilityMin) {
    return absl::FailedPreconditionError(
        absl::StrFormat("GPU %s has compute capability %d.%d; %d.0 is the least", properties.name,
                        properties.major, properties.minor, kComputeCapabilityMin));
  }
  status = CudaStatus(cudaSetDevice(device), "choosing the device");
  if (!status.ok()) return status;
  int driver = 0;
  status = CudaStatus(cudaDriverGetVersion(&driver), "asking for the driver's version");
  if (!status.ok()) return status;
  std::vector<std::unique_ptr<CudaSlot>> slots;
  for (int i = 0; i < kSlots; ++i) {
    absl::StatusOr<std::unique_ptr<CudaSlot>> slot = CudaSlot::Create(account);
    if (!slot.ok()) return slot.status();
    slots.push_back(*std::move(slot));
  }
  Uuid uuid;
  static_assert(sizeof(properties.uuid) == sizeof(uuid));
  std::memcpy(uuid.data(), &properties.uuid, sizeof(uuid));
  std::string name = absl::StrFormat("%s (compute capability %d.%d, %.0f GB, CUDA driver %d.%d)",
                                     properties.name, properties.major, properties.minor,
                                     static_cast<double>(properties.totalGlobalMem) * 1e-9,
                                     driver / 1000, driver % 1000 / 10);
  return std::shared_ptr<CudaCodec>(
      new CudaCodec(device, std::move(name), uuid, std::make_unique<SlotSet>(std::move(slots))));
}

CudaCodec::CudaCodec(int device, std::string name, Uuid uuid, std::unique_ptr<SlotSet> slots)
    : device_(device), name_(std::move(name)), uuid_(uuid), slots_(std::move(slots)) {}

CudaCodec::~CudaCodec() { cudaSetDevice(device_); }  // the slots free their memory there

absl::Status CudaCodec::Enter() const {
  return CudaStatus(cudaSetDevice(device_), "choosing the device");
}

bool CudaCodec::Supports(const compression::CodecSpec& codec) const {
  return device::HasKernels(codec);
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaCodec::Allocate(uint64_t bytes) {
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  return AllocateOnDevice(device_, bytes);
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaCodec::Import(const SharedAllocation& shared) {
  if (shared.device != uuid_) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared device memory: it lies on another GPU than this gateway's, ", name_));
  }
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  return ImportToDevice(device_, shared);
}

absl::StatusOr<size_t> CudaCodec::EncodeChunk(const EncodeRequest& request, absl::Span<uint8_t> out,
                                              compression::EncodeStats* stats) {
  const size_t size = compression::EncodedSizeMax(request.codec, request.n);
  assert(out.size() >= size && request.n <= compression::kChunkElements);
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  SlotSet::Loan slot(*slots_);
  device::EncodeBatch batch = device::EncodeBatchOf(request.codec, request.n);
  batch.snapshot = request.snapshot;
  batch.snapshot_dtype = request.snapshot_dtype;
  batch.residual_dtype = request.residual_dtype;
  batch.seeds[0] = request.seed;
  batch.chunks = slot->device_packed(0);
  absl::Status status;
  if (request.base != nullptr) {
    batch.base = slot->device_values();
    batch.cast_base = request.snapshot_dtype != compression::DType::kFp32;
    std::memcpy(slot->host_values(), request.base, request.n * sizeof(float));
    status = slot->Upload(slot->device_values(), slot->host_values(), request.n * sizeof(float));
  }
  const uint64_t residual_bytes = request.n * compression::DTypeBytes(request.residual_dtype);
  if (status.ok() && request.residual_in != nullptr) {
    batch.residual_in = slot->device_residual(0);
    std::memcpy(slot->host_residual(0), request.residual_in, residual_bytes);
    status = slot->Upload(slot->device_residual(0), slot->host_residual(0), residual_bytes);
  }
  if (request.residual_out != nullptr) batch.residual_out = slot->device_residual(1);
  if (status.ok()) {
    status =
        CudaStatus(device::LaunchEncode(request.codec.kind, batch, slot->stream()), "encoding");
  }
  if (status.ok()) status = slot->Download(slot->host_packed(0), slot->device_packed(0), size);
  if (status.ok() && request.residual_out != nullptr) {
    status = slot->Download(slot->host_residual(1), slot->device_residual(1), residual_bytes);
  }
  // Whatever failed, nothing may still be under way when the slot goes back.
  const absl::Status waited = slot->Wait();
  if (!status.ok()) return status;
  if (!waited.ok()) return waited;
  std::memcpy(out.data(), slot->host_packed(0), size);
  if (request.residual_out != nullptr) {
    std::memcpy(request.residual_out, slot->host_residual(1), residual_bytes);
  }
  return device::FinishChunk(request.codec, request.snapshot_dtype, request.n, request.seed,
                             out.first(size), stats);
}

absl::Status CudaCodec::Combine(const compression::CodecSpec& codec,
                                absl::Span<const Contribution> contributions, float scale,
                                absl::Span<float> out) {
  assert(!contributions.empty() && out.size() <= compression::kChunkElements);
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  SlotSet::Loan slot(*slots_);
  absl::Status status;
  for (size_t begin = 0; begin < contributions.size() && status.ok(); begin += kSlotSources) {
    const size_t count = std::min<size_t>(kSlotSources, contributions.size() - begin);
    device::CombineBatch batch = device::CombineBatchOf(codec, out.size());
    batch.sum = slot->device_values();
    batch.source_count = static_cast<uint32_t>(count);
    batch.fresh = begin == 0;
    batch.scaled = begin + count == contributions.size();
    batch.scale = scale;
    if (begin > 0) status = slot->Wait();  // the staging buffers are still being read
    for (uint32_t i = 0; i < count && status.ok(); ++i) {
      const Contribution& contribution = contributions[begin + i];
      assert(contribution.chunk.size() <= kSlotPackedBytes);
      std::memcpy(slot->host_packed(i), contribution.chunk.data(), contribution.chunk.size());
      status =
          slot->Upload(slot->device_packed(i), slot->host_packed(i), contribution.chunk.size());
      batch.sources[i] = slot->device_packed(i);
      batch.weights[i] = contribution.weight;
    }
    if (status.ok()) {
      status = CudaStatus(device::LaunchCombine(codec.kind, batch, slot->stream()), "combining");
    }
  }
  if (status.ok()) {
    status = slot->Download(slot->host_values(), slot->device_values(), out.size() * sizeof(float));
  }
  const absl::Status waited = slot->Wait();
  if (!status.ok()) return status;
  if (!waited.ok()) return waited;
  std::memcpy(out.data(), slot->host_values(), out.size() * sizeof(float));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CudaCodec::FirstNonFinite(const void* data, compression::DType dtype,
                                                   uint64_t elements) {
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  SlotSet::Loan slot(*slots_);
  for (uint64_t begin = 0; begin < elements; begin += kScanElementsMax) {
    device::ScanBatch batch = {};
    batch.data = static_cast<const std::byte*>(data) + begin * compression::DTypeBytes(dtype);
    batch.dtype = dtype;
    batch.elements = std::min(kScanElementsMax, elements - begin);
    batch.first_to_end = reinterpret_cast<uint32_t*>(slot->device_packed(0));
    const uint64_t chunks =
        (batch.elements + compression::kChunkElements - 1) / compression::kChunkElements;
    absl::Status status = CudaStatus(device::LaunchScan(batch, slot->stream()), "scanning");
    if (status.ok()) {
      status =
          slot->Download(slot->host_packed(0), slot->device_packed(0), chunks * sizeof(uint32_t));
    }
    const absl::Status waited = slot->Wait();
    if (!status.ok()) return status;
    if (!waited.ok()) return waited;
    const auto* first_to_end = reinterpret_cast<const uint32_t*>(slot->host_packed(0));
    for (uint64_t c = 0; c < chunks; ++c) {
      if (first_to_end[c] == 0) continue;
      const uint64_t first = c * compression::kChunkElements;
      const uint64_t here = std::min<uint64_t>(compression::kChunkElements, batch.elements - first);
      return begin + first + here - first_to_end[c];
    }
  }
  return elements;
}

absl::Status CudaCodec::CopyToHost(const void* from, uint64_t bytes, void* to) {
  if (absl::Status entered = Enter(); !entered.ok()) return entered;
  SlotSet::Loan slot(*slots_);
  const absl::Status status = slot->Download(to, from, bytes);
  const absl::Status waited = slot->Wait();
  return status.ok() ? waited : status;
}

}  // namespace causeway::gpu
