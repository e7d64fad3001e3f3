// The session's tensors on a GPU: the snapshot there, copies that end while nobody calls, and
// sharing with the gateway. With the lock held, but for the announcer's call.
#include <algorithm>
#include <string>
#include <utility>

#include "client/shim/merge.h"
#include "client/shim/session.h"

namespace causeway::client {
namespace {

constexpr int64_t kShareMs = 10'000;  // the gateway maps the allocation before it answers
constexpr uint64_t kStagingAlignBytes = 64;

bool OnDevice(const Part& part) { return part.slice->memory == CW_MEMORY_CUDA; }

cuda::Pointer DevicePointer(const void* memory) {
  return static_cast<cuda::Pointer>(reinterpret_cast<uintptr_t>(memory));
}

}  // namespace

Status Session::UseCuda(const cw_cuda& cuda, bool& shared) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (!areas_) return Status(CW_ARGUMENT, "cw_join comes before cw_cuda_use");
  if (cuda_ && cuda.device != cuda_->ordinal()) {
    return Status(CW_ARGUMENT, "this handle's tensors are on device " +
                                   std::to_string(cuda_->ordinal()) + ", not on " +
                                   std::to_string(cuda.device));
  }
  stream_ = static_cast<cuda::Stream>(cuda.stream);
  if (!cuda_) {
    std::shared_ptr<cuda::Device> device;
    if (Status status = cuda::Device::Open(cuda.device, device); !status.ok()) return status;
    cuda_ = std::move(device);
    areas_->pin = cuda_->Pin(areas_->snapshot.data(), areas_->snapshot.size());
    announcer_ = std::make_unique<Announcer>(
        cuda_, [this](uint64_t op, Status status) { OnCopied(op, std::move(status)); });
    if (cuda.private_only == 0 && identity_.world == 1) {
      if (Status status = NegotiateSharing(lock); !status.ok()) return status;
    }
  }
  shared = shared_;
  return Status();
}

// Whatever hinders it, the copies go through the gateway's memory: no failure of the call.
Status Session::NegotiateSharing(Lock& lock) {
  if (cuda_->MakeSnapshot(areas_->snapshot.size(), true) != cuda::Device::Kind::kShareable) {
    return Status();
  }
  share_wanted_ = true;
  if (phase_ != Phase::kUp || !SendShare()) return Status();
  const Status answered =
      Await(lock, Deadline::In(kShareMs), [this] { return share_step_ != Step::kSent; });
  if (answered.code() == CW_GATEWAY_LOST) lost_told_ = false;  // for the next wait to tell
  if (!failure_.ok()) return Status(failure_.failure());
  return Status();
}

bool Session::SendShare() {
  share_step_ = Step::kNone;
  shared_ = false;
  Descriptor descriptor;
  if (!cuda_->ExportSnapshot(descriptor).ok()) return true;  // goes on without
  local::Share message{};
  message.bytes = cuda_->snapshot_bytes();
  message.kind = static_cast<uint8_t>(local::DeviceMemory::kCudaVmm);
  std::copy(std::begin(cuda_->uuid().bytes), std::end(cuda_->uuid().bytes), message.device);
  if (!Send(message, local::Type::kShare, descriptor.get())) return false;
  share_sequence_ = sequence_;
  share_step_ = Step::kSent;
  return true;
}

void Session::OnShared(const local::Shared& message) {
  if (share_step_ != Step::kSent || message.header.answers != share_sequence_) return;
  share_step_ = Step::kDone;
  shared_ = message.accepted != 0;
}

Status Session::CheckCuda(const std::vector<Part>& parts) const {
  if (std::none_of(parts.begin(), parts.end(), OnDevice)) return Status();
  if (!cuda_) return Status(CW_ARGUMENT, "cw_cuda_use comes before slices of CUDA memory");
  return cuda_->CheckStream(stream_);
}

// Where a part lies in the device's snapshot: as in the gateway's where it is whole, else packed.
uint64_t Session::SnapshotOffset(const Part& part) const {
  const Fragment& fragment = areas_->layout.fragments()[part.fragment];
  if (identity_.world == 1) {
    return fragment.snapshot_offset + part.first * BytesOf(fragment.dtype);
  }
  uint64_t offset = 0;
  for (const Range& range : claim_) {
    const uint64_t bytes = BytesOf(areas_->layout.fragments()[range.fragment].dtype);
    const bool here = range.fragment == part.fragment && part.first >= range.first &&
                      part.first < range.first + range.count;
    if (here) return offset + (part.first - range.first) * bytes;
    offset +=
        (range.count * bytes + kStagingAlignBytes - 1) / kStagingAlignBytes * kStagingAlignBytes;
  }
  return offset;
}

uint64_t Session::SnapshotBytes() const {
  if (identity_.world == 1) return areas_->snapshot.size();
  uint64_t bytes = 0;
  for (const Range& range : claim_) {
    bytes += range.count * BytesOf(areas_->layout.fragments()[range.fragment].dtype) +
             kStagingAlignBytes;
  }
  return bytes;
}

Status Session::CopyFromDevice(const std::vector<Part>& parts, Operation& operation,
                               std::shared_ptr<cuda::Mark>& mark) {
  if (std::none_of(parts.begin(), parts.end(), OnDevice)) {
    CopyIn(parts);
    return Status();
  }
  if (!std::exchange(snapshot_tried_, true) && cuda_->snapshot() == cuda::Device::Kind::kNone) {
    cuda_->MakeSnapshot(SnapshotBytes(), false);
  }
  operation.on_device = shared_;
  std::vector<cuda::Device::Piece> pieces;
  for (const Part& part : parts) {
    const uint64_t size = BytesOf(areas_->layout.fragments()[part.fragment].dtype);
    cuda::Device::Piece piece;
    piece.bytes = part.count * size;
    piece.snapshot_offset = SnapshotOffset(part);
    piece.to = areas_->SnapshotOf(part.fragment) + part.first * size;
    if (OnDevice(part)) {
      piece.device = DevicePointer(part.slice->data);
    } else {
      piece.host = part.slice->data;
      if (!operation.on_device) CopyIn({part});
    }
    pieces.push_back(piece);
  }
  if (Status status = cuda_->Submit(stream_, pieces, operation.on_device, mark); !status.ok()) {
    return status;
  }
  operation.copying = true;
  operation.result.state = CW_STATE_SNAPSHOT;
  return Status();
}

// From the announcer's thread.
void Session::OnCopied(uint64_t op, Status status) {
  const Lock lock(mutex_);
  Operation* operation = Find(op);
  if (operation == nullptr || !failure_.ok()) return;
  operation->copying = false;
  if (!status.ok()) {
    EndOperation(*operation, Failure(status.failure()));
    RefreshUnread();
    waiting_.WakeOthers();
    return;
  }
  operation->result.state = CW_STATE_PENDING;
  if (running()) OnUnknown(*operation);  // the gateway has not seen it yet
}

// A gateway that cannot read the device any more gets what lies there.
Status Session::FetchSnapshot(Operation& operation) {
  std::vector<cuda::Device::Copy> copies;
  const uint64_t size = BytesOf(areas_->layout.fragments()[operation.fragment].dtype);
  for (const Range& range : OwnRanges(operation.fragment)) {
    const Part part{nullptr, operation.fragment, range.first, range.count};
    copies.push_back({cuda_->SnapshotAt(SnapshotOffset(part)),
                      areas_->SnapshotOf(operation.fragment) + range.first * size,
                      range.count * size});
  }
  Status status = cuda_->FromDevice(nullptr, copies);
  if (status.ok()) operation.on_device = false;
  return status;
}

Status Session::OfferFromDevice(const std::vector<Part>& parts) {
  std::vector<cuda::Device::Copy> copies;
  for (const Part& part : parts) {
    const uint64_t size = BytesOf(areas_->layout.fragments()[part.fragment].dtype);
    if (OnDevice(part)) {
      copies.push_back({DevicePointer(part.slice->data),
                        areas_->SnapshotOf(part.fragment) + part.first * size, part.count * size});
    } else {
      CopyIn({part});
    }
  }
  return copies.empty() ? Status() : cuda_->FromDevice(stream_, copies);
}

namespace {

// Memory of one merge in the staging area: bytes are counted first, then given out.
class Staging {
 public:
  void* Take(uint64_t bytes) {
    void* const here = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + kStagingAlignBytes - 1) / kStagingAlignBytes * kStagingAlignBytes;
    return here;
  }
  uint64_t used() const { return used_; }
  void Begin(uint8_t* base) { base_ = base, used_ = 0; }

 private:
  uint8_t* base_ = nullptr;
  uint64_t used_ = 0;
};

}  // namespace

// Everything that is read comes first, then the arithmetic on the host, then what is written: a
// copy that fails before leaves the tensors as they were.
Status Session::MergeOnDevice(Rule rule, const Operation* operation, const std::vector<Part>& parts,
                              std::vector<MergeSpan> spans) {
  const bool sent_there = operation != nullptr && operation->on_device && rule == Rule::kCarrySent;
  Staging staging;
  std::vector<cuda::Device::Copy> reads, writes;
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      uint8_t* const base = cuda_->Staging(staging.used());
      if (base == nullptr) return Status(CW_MEMORY, "no host memory to merge a result in");
      staging.Begin(base);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      MergeSpan span = spans[i];
      const uint64_t bytes = span.count * BytesOf(span.dtype);
      if (sent_there) {
        void* const copy = staging.Take(bytes);
        if (pass == 1) {
          reads.push_back({cuda_->SnapshotAt(SnapshotOffset(parts[i])), copy, bytes});
          span.sent = copy;
        }
      }
      if (OnDevice(parts[i])) {
        void* const value = staging.Take(bytes);
        void* const cast =
            span.cast == nullptr ? nullptr : staging.Take(span.count * BytesOf(span.cast_dtype));
        if (pass == 1) {
          if (rule != Rule::kReplace) reads.push_back({DevicePointer(span.now), value, bytes});
          writes.push_back({DevicePointer(span.out), value, bytes});
          if (span.cast != nullptr) {
            writes.push_back(
                {DevicePointer(span.cast), cast, span.count * BytesOf(span.cast_dtype)});
          }
          span.now = span.out = value;
          span.cast = cast;
        }
      }
      if (pass == 1) spans[i] = span;
    }
  }
  if (Status status = cuda_->FromDevice(stream_, reads); !status.ok()) return status;
  for (const MergeSpan& span : spans) Merge(rule, span);
  return cuda_->ToDevice(stream_, writes);
}

}  // namespace causeway::client
