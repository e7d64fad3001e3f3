// Parsing, wire accounting and cutting of packets: the kernel's own segmentation rules (RFC 9293
// sequence numbers; FIN and PSH on the last, CWR on the first), so that a cut packet is what a wire
// would have shown.
#include "tests/wan/emulator/packet.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace causeway::wan_emulator {
namespace {

constexpr size_t kIpv4HeaderBytesMin = 20;
constexpr size_t kIpv6HeaderBytes = 40;
constexpr size_t kTcpHeaderBytesMin = 20;
constexpr uint8_t kProtocolTcp = 6;
constexpr size_t kTcpSequenceOffset = 4;
constexpr size_t kTcpFlagsOffset = 13;
constexpr size_t kTcpChecksumOffset = 16;
constexpr uint8_t kTcpFin = 0x01, kTcpPush = 0x08, kTcpWindowReduced = 0x80;

uint32_t Load16(const uint8_t* p) { return uint32_t{p[0]} << 8 | p[1]; }
uint32_t Load32(const uint8_t* p) { return Load16(p) << 16 | Load16(p + 2); }
void Store16(uint8_t* p, uint32_t value) {
  p[0] = static_cast<uint8_t>(value >> 8);
  p[1] = static_cast<uint8_t>(value);
}
void Store32(uint8_t* p, uint32_t value) {
  Store16(p, value >> 16);
  Store16(p + 2, value & 0xffff);
}

// Folded one's complement sum (RFC 1071) of an even number of bytes, added to `sum`.
uint32_t Sum(const uint8_t* p, size_t bytes, uint32_t sum) {
  for (size_t i = 0; i + 1 < bytes; i += 2) sum += Load16(p + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

uint8_t Version(std::span<const uint8_t> ip) { return ip[0] >> 4; }

}  // namespace

std::optional<Packet> Packet::Parse(const OffloadHeader& offload, std::span<const uint8_t> ip) {
  Packet packet;
  if (ip.size() < kIpv4HeaderBytesMin) return std::nullopt;
  uint8_t protocol;
  size_t ip_header_bytes;
  if (Version(ip) == 4) {
    ip_header_bytes = size_t{ip[0] & 0x0fu} * 4;
    protocol = ip[9];
    packet.destination_[10] = packet.destination_[11] = 0xff;
    std::copy_n(&ip[16], 4, &packet.destination_[12]);
  } else if (Version(ip) == 6 && ip.size() >= kIpv6HeaderBytes) {
    ip_header_bytes = kIpv6HeaderBytes;
    protocol = ip[6];
    std::copy_n(&ip[24], 16, packet.destination_.begin());
  } else {
    return std::nullopt;
  }
  if (ip_header_bytes < kIpv4HeaderBytesMin || ip_header_bytes > ip.size()) return std::nullopt;
  packet.offload_ = offload;
  packet.wire_bytes_ = static_cast<int64_t>(ip.size());
  if (offload.segmentation != kNoSegmentation) {
    if (protocol != kProtocolTcp || offload.segment_bytes == 0 ||
        ip.size() < ip_header_bytes + kTcpHeaderBytesMin) {
      return std::nullopt;
    }
    const size_t tcp_header_bytes = (size_t{ip[ip_header_bytes + 12]} >> 4) * 4;
    const size_t headers = ip_header_bytes + tcp_header_bytes;
    if (tcp_header_bytes < kTcpHeaderBytesMin || headers > ip.size()) return std::nullopt;
    const size_t payload = ip.size() - headers;
    packet.ip_header_bytes_ = ip_header_bytes;
    packet.headers_bytes_ = headers;
    packet.wire_packets_ =
        std::max<int64_t>(1, (payload + offload.segment_bytes - 1) / offload.segment_bytes);
    packet.wire_bytes_ = static_cast<int64_t>(payload + packet.wire_packets_ * headers);
  }
  packet.ip_.assign(ip.begin(), ip.end());
  return packet;
}

int64_t Packet::WireBytes(int64_t first, int64_t count) const {
  if (wire_packets_ == 1) return wire_bytes_;
  const int64_t payload = static_cast<int64_t>(ip_.size() - headers_bytes_);
  const int64_t begin = first * offload_.segment_bytes;
  const int64_t end = std::min<int64_t>(payload, (first + count) * offload_.segment_bytes);
  return end - begin + count * static_cast<int64_t>(headers_bytes_);
}

int64_t Packet::wire_packet_bytes_max() const { return WireBytes(0, 1); }

Packet Packet::Slice(int64_t first, int64_t count) const {
  assert(first >= 0 && count >= 1 && first + count <= wire_packets_);
  if (first == 0 && count == wire_packets_) return *this;
  const size_t payload = ip_.size() - headers_bytes_;
  const size_t begin = static_cast<size_t>(first) * offload_.segment_bytes;
  const size_t end = std::min(payload, static_cast<size_t>(first + count) * offload_.segment_bytes);

  Packet slice;
  slice.offload_ = offload_;
  slice.destination_ = destination_;
  slice.destination_site = destination_site;
  slice.ip_header_bytes_ = ip_header_bytes_;
  slice.headers_bytes_ = headers_bytes_;
  slice.wire_packets_ = count;
  slice.wire_bytes_ = WireBytes(first, count);
  slice.ip_.resize(headers_bytes_ + end - begin);
  std::memcpy(slice.ip_.data(), ip_.data(), headers_bytes_);
  std::memcpy(slice.ip_.data() + headers_bytes_, ip_.data() + headers_bytes_ + begin, end - begin);
  if (count == 1) {
    slice.offload_.segmentation = kNoSegmentation;
    slice.offload_.segment_bytes = 0;
  }

  uint8_t* ip = slice.ip_.data();
  uint8_t* tcp = ip + ip_header_bytes_;
  const uint32_t tcp_bytes = static_cast<uint32_t>(slice.ip_.size() - ip_header_bytes_);
  uint32_t pseudo_header = kProtocolTcp + tcp_bytes;
  if (Version(slice.ip_) == 4) {
    Store16(ip + 2, static_cast<uint32_t>(slice.ip_.size()));
    Store16(ip + 4, (Load16(ip + 4) + static_cast<uint32_t>(first)) & 0xffff);
    Store16(ip + 10, 0);
    Store16(ip + 10, ~Sum(ip, ip_header_bytes_, 0) & 0xffff);
    pseudo_header = Sum(ip + 12, 8, pseudo_header);
  } else {
    Store16(ip + 4, tcp_bytes);
    pseudo_header = Sum(ip + 8, 32, pseudo_header);
  }
  Store32(tcp + kTcpSequenceOffset,
          Load32(tcp + kTcpSequenceOffset) + static_cast<uint32_t>(begin));
  if (first > 0) tcp[kTcpFlagsOffset] &= ~kTcpWindowReduced;
  if (end < payload) tcp[kTcpFlagsOffset] &= ~(kTcpFin | kTcpPush);
  Store16(tcp + kTcpChecksumOffset, pseudo_header);  // the receiver's offload completes it
  return slice;
}

}  // namespace causeway::wan_emulator
