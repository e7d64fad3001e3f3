// Submissions that stay in a trainer's device memory. Everything that a trainer says of it is tried
// here, on the loop's thread: importing and mapping are calls of the driver without copies.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

// Beyond the snapshots: what rounding up to a device's granularity can add, and more.
constexpr uint64_t kShareSpareBytesMax = uint64_t{1} << 30;

}  // namespace

// A no costs nothing: the trainer's copies then go through the segment.
void Run::OnShare(trainers::Session& session, const trainers::ShareRequest& request,
                  const loop::Descriptor& memory) {
  absl::StatusOr<std::shared_ptr<const endpoint::DeviceSnapshots>> mapped = Map(request, memory);
  trainer_->device = mapped.ok() ? *std::move(mapped) : nullptr;
  const bool accepted = trainer_->device != nullptr;
  const std::string reason = accepted ? "" : std::string(mapped.status().message());
  around_.log->Info(
      event::kTrainerDevice, {{"run", name()}, {"shared", accepted}, {"bytes", request.bytes}},
      accepted ? absl::StrCat("its snapshots stay on ", around_.gpu->Name()) : reason);
  session.SendShared(request.sequence, accepted, reason);
}

absl::StatusOr<std::shared_ptr<const endpoint::DeviceSnapshots>> Run::Map(
    const trainers::ShareRequest& request, const loop::Descriptor& memory) {
  if (around_.gpu == nullptr) return absl::NotFoundError("this gateway uses no GPU");
  if (trainer_->world > 1) {
    return absl::UnimplementedError("ranks of one cluster submit through host memory");
  }
  if (request.device != around_.gpu->uuid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it lies on another GPU than this gateway's, ", around_.gpu->Name()));
  }
  if (request.bytes - layout_->snapshot_bytes() > kShareSpareBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.bytes, " bytes, where snapshots take ", layout_->snapshot_bytes()));
  }
  gpu::SharedAllocation shared;
  shared.kind = gpu::SharedAllocation::Kind::kVmm;
  shared.descriptor = memory.get();
  shared.bytes = request.bytes;
  shared.device = request.device;
  absl::StatusOr<std::unique_ptr<gpu::DeviceMemory>> imported = around_.gpu->Import(shared);
  if (!imported.ok()) return imported.status();
  absl::StatusOr<std::shared_ptr<memory::Account>> account =
      around_.budget->Open(absl::StrCat("run ", name()));
  if (!account.ok()) return account.status();
  return endpoint_->MapDevice(around_.gpu, *std::move(imported), *account);
}

// The trainer's values are where nobody can read them, so its operation can neither be completed
// nor, in this process, be done again.
void Run::OnDeviceFailed(const absl::Status& status) { around_.device_failed(status); }

}  // namespace causeway::run
