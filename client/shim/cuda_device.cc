#include "client/shim/cuda_device.h"

#include <algorithm>
#include <new>
#include <utility>

#include "client/shim/cuda_library.h"

namespace causeway::client::cuda {

Device::Current::Current(const Device& device) : calls_(device.calls_) {
  result_ = calls_.context_push(device.context_);
}

Device::Current::~Current() {
  Context popped = nullptr;
  if (result_ == 0) calls_.context_pop(&popped);
}

Status Device::Current::status() const {
  return result_ == 0 ? Status() : FailureOf(calls_, result_, "cuCtxPushCurrent");
}

class Mark {
 public:
  Mark(std::shared_ptr<const Device> device, Event event)
      : device_(std::move(device)), event_(event) {}
  ~Mark() {
    if (device_->forgotten_) return;
    const Device::Current current(*device_);
    device_->calls_.event_destroy(event_);
  }
  Event event() const { return event_; }

 private:
  const std::shared_ptr<const Device> device_;  // shared: marks may be the last to need it
  const Event event_;
};

// A failed call ends the function that made it.
#define CAUSEWAY_CUDA_TRY(call, name)              \
  if (const Result result = (call); result != 0) { \
    return FailureOf(calls_, result, name);        \
  }

Status Device::Open(int ordinal, std::shared_ptr<Device>& device) {
  const Calls* calls = nullptr;
  if (Status status = Load(calls); !status.ok()) return status;
  std::shared_ptr<Device> opened(new Device(*calls));
  if (Status status = opened->OpenContext(ordinal); !status.ok()) return status;
  device = std::move(opened);
  return Status();
}

Status Device::OpenContext(int ordinal) {
  ordinal_ = ordinal;
  CAUSEWAY_CUDA_TRY(calls_.device_get(&device_, ordinal), "cuDeviceGet");
  CAUSEWAY_CUDA_TRY(calls_.device_uuid(&uuid_, device_), "cuDeviceGetUuid");
  // The context that the runtime, and so every framework, uses.
  CAUSEWAY_CUDA_TRY(calls_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  CAUSEWAY_CUDA_TRY(calls_.stream_create(&side_, kStreamNonBlocking), "cuStreamCreate");
  return Status();
}

Device::~Device() {
  if (forgotten_ || context_ == nullptr) {
    if (forgotten_) staging_.release();  // pinned by the parent: never to be unpinned here
    return;
  }
  {
    const Current current(*this);
    if (side_ != nullptr) calls_.stream_synchronize(side_);
    UnpinStaging();
    FreeSnapshot();
    if (side_ != nullptr) calls_.stream_destroy(side_);
  }
  calls_.context_release(device_);
}

std::shared_ptr<void> Device::Pin(void* memory, uint64_t bytes) {
  const Current current(*this);
  if (bytes == 0 || !current.status().ok()) return nullptr;
  if (calls_.host_register(memory, bytes, kHostRegisterPortable) != 0) return nullptr;
  return std::shared_ptr<void>(memory, [self = shared_from_this()](void* pinned) {
    if (self->forgotten_) return;
    const Current again(*self);
    self->calls_.host_unregister(pinned);
  });
}

Device::Kind Device::MakeSnapshot(uint64_t bytes, bool shareable) {
  FreeSnapshot();
  const Current current(*this);
  if (bytes == 0 || !current.status().ok()) return Kind::kNone;
  if (shareable && MakeShareable(bytes)) {
    snapshot_kind_ = Kind::kShareable;
  } else if (calls_.memory_allocate(&snapshot_, bytes) == 0) {
    snapshot_kind_ = Kind::kPrivate;
    snapshot_bytes_ = bytes;
  }
  return snapshot_kind_;
}

// False where the device or the system cannot: nothing is left of the attempt.
bool Device::MakeShareable(uint64_t bytes) {
  int memory = 0, descriptors = 0;
  if (calls_.device_attribute(&memory, kHasVirtualMemory, device_) != 0 || memory == 0 ||
      calls_.device_attribute(&descriptors, kHasPosixDescriptors, device_) != 0 ||
      descriptors == 0) {
    return false;
  }
  AllocationProperties properties;
  properties.type = kPinned;
  properties.handle_types = kPosixDescriptor;
  properties.location = {kOnDevice, device_};
  size_t unit = 0;
  if (calls_.granularity(&unit, &properties, 0) != 0 || unit == 0) return false;
  const uint64_t size = (bytes + unit - 1) / unit * unit;
  if (calls_.create(&allocation_, size, &properties, 0) != 0) return false;
  if (calls_.reserve(&snapshot_, size, 0, 0, 0) != 0) {
    calls_.release(allocation_);
    return false;
  }
  const bool mapped = calls_.map(snapshot_, size, 0, allocation_, 0) == 0;
  const Access access{{kOnDevice, device_}, kReadWrite};
  // The gateway reads the padding, too, and expects zeros.
  const bool ready = mapped && calls_.set_access(snapshot_, size, &access, 1) == 0 &&
                     calls_.memory_set(snapshot_, 0, size, side_) == 0 &&
                     calls_.stream_synchronize(side_) == 0;
  if (ready) {
    snapshot_bytes_ = size;
    return true;
  }
  if (mapped) calls_.unmap(snapshot_, size);
  calls_.unreserve(snapshot_, size);
  calls_.release(allocation_);
  snapshot_ = 0;
  return false;
}

void Device::FreeSnapshot() {
  if (snapshot_kind_ == Kind::kPrivate) {
    calls_.memory_free(snapshot_);
  } else if (snapshot_kind_ == Kind::kShareable) {
    calls_.unmap(snapshot_, snapshot_bytes_);
    calls_.unreserve(snapshot_, snapshot_bytes_);
    calls_.release(allocation_);
  }
  snapshot_kind_ = Kind::kNone;
  snapshot_ = 0;
  snapshot_bytes_ = 0;
}

Status Device::ExportSnapshot(Descriptor& descriptor) const {
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  int number = -1;
  CAUSEWAY_CUDA_TRY(calls_.export_handle(&number, allocation_, kPosixDescriptor, 0),
                    "cuMemExportToShareableHandle");
  descriptor = Descriptor(number);
  return Status();
}

Status Device::CheckStream(Stream stream) const {
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  int capturing = kCapturingNot;
  CAUSEWAY_CUDA_TRY(calls_.stream_capturing(stream, &capturing), "cuStreamIsCapturing");
  if (capturing == kCapturingNot) return Status();
  return Status(CW_ARGUMENT,
                "a graph is being captured on this stream: an exchange cannot be part of one");
}

// What is enqueued on `after` from now on waits for what is on `before` now.
Status Device::Order(Stream before, Stream after, std::shared_ptr<Mark>& mark) {
  Event event = nullptr;
  CAUSEWAY_CUDA_TRY(calls_.event_create(&event, kEventBlockingNoTiming), "cuEventCreate");
  mark = std::make_shared<Mark>(shared_from_this(), event);
  CAUSEWAY_CUDA_TRY(calls_.event_record(event, before), "cuEventRecord");
  if (after == before) return Status();
  CAUSEWAY_CUDA_TRY(calls_.stream_wait(after, event, 0), "cuStreamWaitEvent");
  return Status();
}

Status Device::Submit(Stream stream, const std::vector<Piece>& pieces, bool stay,
                      std::shared_ptr<Mark>& mark) {
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  const bool snapshot = snapshot_kind_ != Kind::kNone;
  for (const Piece& piece : pieces) {
    if (!snapshot) break;
    const Pointer to = snapshot_ + piece.snapshot_offset;
    if (piece.device != 0) {
      CAUSEWAY_CUDA_TRY(calls_.copy_on_device(to, piece.device, piece.bytes, stream),
                        "cuMemcpyDtoDAsync");
    } else if (stay) {
      CAUSEWAY_CUDA_TRY(calls_.copy_to_device(to, piece.host, piece.bytes, stream),
                        "cuMemcpyHtoDAsync");
    }
  }
  if (Status status = Order(stream, side_, mark); !status.ok()) return status;
  if (stay) return Status();
  for (const Piece& piece : pieces) {
    if (piece.device == 0) continue;
    const Pointer from = snapshot ? snapshot_ + piece.snapshot_offset : piece.device;
    CAUSEWAY_CUDA_TRY(calls_.copy_to_host(piece.to, from, piece.bytes, side_), "cuMemcpyDtoHAsync");
  }
  // Without a snapshot the tensors may be overwritten only when they have been read.
  return Order(side_, snapshot ? side_ : stream, mark);
}

Status Device::Record(Stream stream, std::shared_ptr<Mark>& mark) {
  const Current current(*this);
  return Order(stream, stream, mark);
}

Status Device::Reached(const Mark& mark, bool& reached) const {
  const Current current(*this);
  const Result result = calls_.event_query(mark.event());
  reached = result == 0;
  return reached || result == kNotReady ? Status() : FailureOf(calls_, result, "cuEventQuery");
}

Status Device::OnDevice(Stream stream, const std::vector<Move>& moves) {
  const Current current(*this);
  for (const Move& move : moves) {
    CAUSEWAY_CUDA_TRY(calls_.copy_on_device(move.to, move.from, move.bytes, stream),
                      "cuMemcpyDtoDAsync");
  }
  return Status();
}

Status Device::AwaitCopied(const Mark& mark) const {
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  CAUSEWAY_CUDA_TRY(calls_.event_synchronize(mark.event()), "cuEventSynchronize");
  return Status();
}

template <typename Start>
Status Device::OnSide(Stream stream, const std::vector<Copy>& copies, Start start) {
  if (copies.empty()) return Status();
  const Current current(*this);
  if (Status status = current.status(); !status.ok()) return status;
  std::shared_ptr<Mark> mark;
  if (Status status = Order(stream, side_, mark); !status.ok()) return status;
  for (const Copy& copy : copies) {
    if (Status status = start(copy); !status.ok()) return status;
  }
  CAUSEWAY_CUDA_TRY(calls_.stream_synchronize(side_), "cuStreamSynchronize");
  return Status();
}

Status Device::FromDevice(Stream stream, const std::vector<Copy>& copies) {
  return OnSide(stream, copies, [this](const Copy& copy) {
    CAUSEWAY_CUDA_TRY(calls_.copy_to_host(copy.host, copy.device, copy.bytes, side_),
                      "cuMemcpyDtoHAsync");
    return Status();
  });
}

Status Device::ToDevice(Stream stream, const std::vector<Copy>& copies) {
  return OnSide(stream, copies, [this](const Copy& copy) {
    CAUSEWAY_CUDA_TRY(calls_.copy_to_device(copy.device, copy.host, copy.bytes, side_),
                      "cuMemcpyHtoDAsync");
    return Status();
  });
}

#undef CAUSEWAY_CUDA_TRY

uint8_t* Device::Staging(uint64_t bytes) {
  if (bytes <= staging_bytes_) return staging_.get();
  const Current current(*this);
  UnpinStaging();
  staging_bytes_ = 0;
  staging_.reset(new (std::nothrow) uint8_t[bytes]);
  if (!staging_) return nullptr;
  staging_bytes_ = bytes;
  staging_pinned_ = current.status().ok() &&
                    calls_.host_register(staging_.get(), bytes, kHostRegisterPortable) == 0;
  return staging_.get();
}

void Device::UnpinStaging() {
  if (std::exchange(staging_pinned_, false)) calls_.host_unregister(staging_.get());
}

}  // namespace causeway::client::cuda
