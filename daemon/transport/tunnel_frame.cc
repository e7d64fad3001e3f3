#include "daemon/transport/tunnel_frame.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/frames.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/wire_fields.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

constexpr uint32_t kDataField = 2;
constexpr size_t kHelloBytesMax = 4 * kNameBytesMax;
constexpr size_t kHeadBytesMax = 11;  // a tag and a length

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed tunnel frame: ", what));
}

}  // namespace

grpc::ByteBuffer EncodeTunnelHello(const TunnelHelloFrame& hello) {
  wan::v1::TunnelFrame frame;
  frame.mutable_hello()->set_cluster(hello.cluster);
  frame.mutable_hello()->set_to(hello.to);
  frame.mutable_hello()->set_tunnel(hello.tunnel);
  return ToByteBuffer(frame.SerializeAsString());
}

absl::StatusOr<TunnelHelloFrame> DecodeTunnelHello(const grpc::ByteBuffer& frame) {
  grpc::Slice bytes;
  if (frame.Length() > kHelloBytesMax || !frame.DumpToSingleSlice(&bytes).ok()) {
    return Bad(absl::StrCat("a hello of ", frame.Length(), " bytes, limit ", kHelloBytesMax));
  }
  wan::v1::TunnelFrame message;
  if (!message.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())) ||
      !message.has_hello()) {
    return Bad("no hello");
  }
  const wan::v1::TunnelHello& hello = message.hello();
  if (hello.cluster().size() > kNameBytesMax || hello.to().size() > kNameBytesMax) {
    return Bad("a name is too long");
  }
  if (hello.to().empty() == (hello.tunnel() == 0)) {
    return Bad("a hello names either whom to reach or the offer that it answers");
  }
  return TunnelHelloFrame{hello.cluster(), hello.to(), hello.tunnel()};
}

grpc::ByteBuffer EncodeTunnelData(std::string bytes) {
  std::string head;
  AppendBytesHead(head, kDataField, bytes.size());
  return ToByteBuffer(std::move(head), std::move(bytes));
}

absl::StatusOr<TunnelData> DecodeTunnelData(const grpc::ByteBuffer& frame) {
  TunnelData data;
  if (!frame.Dump(&data.slices).ok()) return Bad("unreadable");
  std::array<uint8_t, kHeadBytesMax> head{};
  size_t filled = 0;
  for (const grpc::Slice& slice : data.slices) {
    for (size_t i = 0; i < slice.size() && filled < head.size(); ++i) {
      head[filled++] = slice.begin()[i];
    }
  }
  if (filled == 0 || head[0] != (kDataField << 3 | 2)) return Bad("no data");
  uint64_t length = 0;
  for (size_t at = 1, shift = 0; at < filled && shift < 64; ++at, shift += 7) {
    length |= static_cast<uint64_t>(head[at] & 0x7f) << shift;
    if ((head[at] & 0x80) != 0) continue;
    data.skip = at + 1;
    break;
  }
  if (data.skip == 0 || length != frame.Length() - data.skip) return Bad("wrong length");
  return data;
}

}  // namespace causeway::transport
