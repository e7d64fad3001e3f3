// Snapshots that trainers leave in a device's memory. Base and residual are where they always are,
// so whatever happens to them between two contributions is the same code.
#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/endpoint/endpoint.h"
#include "daemon/endpoint/fragment_state.h"

namespace causeway::endpoint {

absl::Status LocalEndpoint::AttachDevice(std::shared_ptr<gpu::GpuCodec> gpu,
                                         std::unique_ptr<gpu::DeviceMemory> memory,
                                         const std::shared_ptr<memory::Account>& account) {
  confined_.Check();
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
  DetachDevice();
  device_scratch_ = std::make_unique<ScratchSet>(*std::move(scratch), options_.encoders_max);
  gpu_ = std::move(gpu);
  device_memory_ = std::move(memory);
  return absl::OkStatus();
}

void LocalEndpoint::DetachDevice() {
  confined_.Check();
  for (const std::unique_ptr<FragmentState>& state : fragments_) {
    assert(!state->open || !state->on_device);
    state->on_device = false;
  }
  device_memory_.reset();
  device_scratch_.reset();
  gpu_.reset();
}

void LocalEndpoint::SnapshotIn(uint32_t fragment, SnapshotPlace where) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(!state.open && (where == SnapshotPlace::kSegment || device_memory_ != nullptr));
  state.on_device = where == SnapshotPlace::kDevice;
  state.device_status = absl::OkStatus();
}

const std::byte* LocalEndpoint::DeviceArea(uint32_t fragment) const {
  return device_memory_->data() + record(fragment).snapshot_offset;
}

std::optional<uint32_t> LocalEndpoint::NonFiniteOnDevice(uint32_t fragment) const {
  FragmentState& state = *fragments_.at(fragment);
  const auto dtype = static_cast<compression::DType>(record(fragment).dtype);
  const std::byte* area = DeviceArea(fragment);
  const uint64_t elements = record(fragment).elements;
  for (uint64_t begin = 0; begin < elements;) {
    // Scans begin where 16 bytes do.
    const absl::StatusOr<uint64_t> found = gpu_->FirstNonFinite(
        area + begin * compression::DTypeBytes(dtype), dtype, elements - begin);
    if (!found.ok()) {
      state.device_status = found.status();  // the contribution then fails with it
      return std::nullopt;
    }
    if (*found == elements - begin) return std::nullopt;
    const std::optional<uint32_t> tensor = layout_->TensorAt(fragment, begin + *found);
    if (tensor) return tensor;
    // Padding, which is nobody's; the next tensor begins at the next boundary.
    begin = (begin + *found) / local::kTensorAlignElements * local::kTensorAlignElements +
            local::kTensorAlignElements;
  }
  return std::nullopt;
}

EncodedChunk LocalEndpoint::EncodeFromDevice(uint32_t fragment, uint32_t chunk,
                                             compression::EncodeInput input,
                                             absl::Span<uint8_t> out) {
  FragmentState& state = *fragments_.at(fragment);
  const compression::CodecSpec& codec = state.CodecOf(options_);
  const uint64_t first = uint64_t{chunk} * compression::kChunkElements;
  const size_t size = compression::DTypeBytes(input.snapshot_dtype);
  const std::byte* snapshot = DeviceArea(fragment) + first * size;
  compression::EncodeStats stats;
  EncodedChunk result;
  result.status = state.device_status;
  if (result.status.ok() && gpu_->Supports(codec)) {
    gpu::EncodeRequest request;
    request.codec = codec;
    request.n = input.n;
    request.seed = input.seed;
    request.snapshot = snapshot;
    request.snapshot_dtype = input.snapshot_dtype;
    if (options_.outer) request.base = Slot(fragment, state.base_round) + first;
    request.residual_in = static_cast<const uint16_t*>(input.residual_in);
    request.residual_out = static_cast<uint16_t*>(input.residual_out);
    const absl::StatusOr<size_t> bytes = gpu_->EncodeChunk(request, out, &stats);
    result.status = bytes.status();
    if (bytes.ok()) result.bytes = *bytes;
  } else if (result.status.ok()) {
    ScratchSet::Loan copy(*device_scratch_);
    result.status = gpu_->CopyToHost(snapshot, input.n * size, copy.data());
    input.snapshot = copy.data();
    if (result.status.ok()) result.bytes = EncodeOnCpu(fragment, first, input, out, &stats);
  }
  Finish(fragment, chunk, stats, &result);
  return result;
}

}  // namespace causeway::endpoint
