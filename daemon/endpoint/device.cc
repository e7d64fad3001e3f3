// Snapshots that trainers leave in a device's memory. Base and residual are where they always are,
// so whatever happens to them between two contributions is the same code.
#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/endpoint/endpoint.h"
#include "daemon/endpoint/fragment_state.h"

namespace causeway::endpoint {

absl::StatusOr<std::shared_ptr<const DeviceSnapshots>> LocalEndpoint::MapDevice(
    std::shared_ptr<gpu::GpuCodec> gpu, std::unique_ptr<gpu::DeviceMemory> memory,
    const std::shared_ptr<memory::Account>& account) const {
  if (memory->size() < layout_->snapshot_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("device memory of ", memory->size(),
                                                   " bytes, where a snapshot takes ",
                                                   layout_->snapshot_bytes()));
  }
  // Only codecs without kernels use it, but which codec is next is the plan's to say.
  absl::StatusOr<PrivateMemory> scratch =
      PrivateMemory::Create(account, absl::StrCat("run ", options_.run, ": device scratch"),
                            options_.encoders_max * ScratchSet::kBufferBytes);
  if (!scratch.ok()) return scratch.status();
  auto device = std::make_shared<DeviceSnapshots>();
  device->gpu = std::move(gpu);
  device->memory = std::move(memory);
  device->scratch = std::make_unique<ScratchSet>(*std::move(scratch), options_.encoders_max);
  return device;
}

void LocalEndpoint::SnapshotIn(uint32_t fragment, std::shared_ptr<const DeviceSnapshots> device) {
  confined_.Check();
  assert(device == nullptr || device->memory->size() >= layout_->snapshot_bytes());
  fragments_.at(fragment)->next_device = std::move(device);
}

absl::StatusOr<std::optional<std::string>> LocalEndpoint::NonFiniteIn(const DeviceSnapshots* device,
                                                                      uint32_t fragment) const {
  if (device == nullptr) return NonFiniteInSnapshot(fragment);
  const auto dtype = static_cast<compression::DType>(record(fragment).dtype);
  const std::byte* area = device->memory->data() + record(fragment).snapshot_offset;
  const uint64_t elements = record(fragment).elements;
  for (uint64_t begin = 0; begin < elements;) {
    // Scans begin where 16 bytes do.
    const absl::StatusOr<uint64_t> found = device->gpu->FirstNonFinite(
        area + begin * compression::DTypeBytes(dtype), dtype, elements - begin);
    if (!found.ok()) return found.status();
    if (*found == elements - begin) break;
    const std::optional<uint32_t> tensor = layout_->TensorAt(fragment, begin + *found);
    if (tensor) return std::optional<std::string>(schema_->tensors()[*tensor].name);
    // Padding, which is nobody's; the next tensor begins at the next boundary.
    begin = (begin + *found) / local::kTensorAlignElements * local::kTensorAlignElements +
            local::kTensorAlignElements;
  }
  return std::optional<std::string>();
}

EncodedChunk LocalEndpoint::EncodeFromDevice(uint32_t fragment, uint32_t chunk,
                                             compression::EncodeInput input,
                                             absl::Span<uint8_t> out) {
  FragmentState& state = *fragments_.at(fragment);
  const compression::CodecSpec& codec = state.codec;
  const DeviceSnapshots& device = *state.device;
  const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
  const size_t size = compression::DTypeBytes(input.snapshot_dtype);
  const std::byte* snapshot =
      device.memory->data() + record(fragment).snapshot_offset + first * size;
  compression::EncodeStats stats;
  EncodedChunk result;
  if (device.gpu->Supports(codec)) {
    gpu::EncodeRequest request;
    request.codec = codec;
    request.n = input.n;
    request.seed = input.seed;
    request.snapshot = snapshot;
    request.snapshot_dtype = input.snapshot_dtype;
    if (options_.outer) request.base = Slot(fragment, state.base_round) + first;
    request.residual_in = input.residual_in;
    request.residual_out = input.residual_out;
    request.residual_dtype = input.residual_dtype;
    const absl::StatusOr<size_t> bytes = device.gpu->EncodeChunk(request, out, &stats);
    result.status = bytes.status();
    if (bytes.ok()) result.bytes = *bytes;
  } else {
    ScratchSet::Loan copy(*device.scratch);
    result.status = device.gpu->CopyToHost(snapshot, input.n * size, copy.data());
    input.snapshot = copy.data();
    if (result.status.ok()) result.bytes = EncodeOnCpu(fragment, first, input, out, &stats);
  }
  Finish(fragment, chunk, stats, &result);
  return result;
}

}  // namespace causeway::endpoint
