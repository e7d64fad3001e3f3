#include "daemon/transport/frames.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/wire_fields.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

constexpr uint32_t kControlRunField = 2;

// What a slice refers to. gRPC may destroy it on any of its threads; the flag orders that after the
// making of it without resting on gRPC's own counting (which thread sanitizers cannot see).
template <typename T>
struct Owned {
  explicit Owned(T owned) : value(std::move(owned)) { made.store(true, std::memory_order_release); }
  static void Destroy(void* self) {
    auto* owned = static_cast<Owned*>(self);
    if (owned->made.load(std::memory_order_acquire)) delete owned;
  }

  T value;
  std::atomic<bool> made{false};
};

template <typename T>
grpc::Slice ToSlice(T bytes) {
  auto* owned = new Owned<T>(std::move(bytes));
  return grpc::Slice(const_cast<void*>(static_cast<const void*>(owned->value.data())),
                     owned->value.size(), &Owned<T>::Destroy, owned);
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(std::string bytes) {
  grpc::Slice slice = ToSlice(std::move(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer ToByteBuffer(std::string head, std::string rest) {
  std::array<grpc::Slice, 2> slices = {ToSlice(std::move(head)), ToSlice(std::move(rest))};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer ToByteBuffer(std::string head, const memory::SharedBuffer& payload) {
  if (payload.size() == 0) return ToByteBuffer(std::move(head));
  std::array<grpc::Slice, 2> slices = {ToSlice(std::move(head)), ToSlice(payload)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer EncodeControl(const wan::v1::ControlFrame& frame) {
  return ToByteBuffer(frame.SerializeAsString());
}

std::string EncodeRunMessage(const wan::v1::RunMessage& message) {
  std::string bytes;
  const size_t size = message.ByteSizeLong();
  bytes.reserve(size + 16);
  AppendBytesHead(bytes, kControlRunField, size);
  message.AppendToString(&bytes);
  return bytes;
}

absl::StatusOr<wan::v1::ControlFrame> DecodeControl(const grpc::ByteBuffer& frame) {
  if (frame.Length() > kControlFrameBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("control frame of ", frame.Length(), " bytes, limit ", kControlFrameBytesMax));
  }
  grpc::Slice bytes;
  if (!frame.DumpToSingleSlice(&bytes).ok())
    return absl::InvalidArgumentError("unreadable control frame");
  wan::v1::ControlFrame message;
  if (!message.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("malformed control frame");
  }
  return message;
}

absl::StatusOr<ReceivedLaneFrame> ReceivedLaneFrame::Read(const grpc::ByteBuffer& buffer) {
  ReceivedLaneFrame received;
  received.bytes_ = buffer.Length();
  if (!buffer.Dump(&received.slices_).ok())
    return absl::InvalidArgumentError("unreadable lane frame");

  std::array<uint8_t, kLaneHeaderBytesMax> head;
  size_t filled = 0;
  for (const grpc::Slice& slice : received.slices_) {
    const size_t part = std::min(slice.size(), head.size() - filled);
    if (part == 0) break;
    std::memcpy(head.data() + filled, slice.begin(), part);
    filled += part;
  }
  absl::StatusOr<LaneFrame> parsed = ParseLaneFrame({head.data(), filled}, received.bytes_);
  if (!parsed.ok()) return parsed.status();
  received.frame_ = std::move(*parsed);
  return received;
}

void ReceivedLaneFrame::CopyPayload(const ChunkFrame& chunk, absl::Span<std::byte> to) const {
  assert(to.size() == chunk.payload_bytes);
  size_t skip = chunk.payload_offset;
  size_t copied = 0;
  for (const grpc::Slice& slice : slices_) {
    if (skip >= slice.size()) {
      skip -= slice.size();
      continue;
    }
    const size_t part = std::min(slice.size() - skip, to.size() - copied);
    std::memcpy(to.data() + copied, slice.begin() + skip, part);
    copied += part;
    skip = 0;
  }
  assert(copied == to.size());
}

}  // namespace causeway::transport
