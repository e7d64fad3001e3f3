// An IP packet as a TUN device gives it, with the offload header that may stand for several packets
// on the wire.
//
// With segmentation offload the kernel hands over one large TCP packet where a wire would carry
// many. Everything that the emulator charges or drops is counted in wire packets, so a large packet
// can be cut at wire packet borders. Pure functions over bytes; no I/O. Any thread, no shared
// state.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_PACKET_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace causeway::wan_emulator {

// IPv4 addresses are kept as IPv4-mapped IPv6 ones.
using Address = std::array<uint8_t, 16>;

// What a device with IFF_VNET_HDR puts before each packet: the kernel's virtio_net_hdr, whose own
// header is not C++. Native byte order, as TUN devices use.
struct OffloadHeader {
  uint8_t flags, segmentation;
  uint16_t header_bytes, segment_bytes, checksum_start, checksum_offset;
};
static_assert(sizeof(OffloadHeader) == 10);
inline constexpr uint8_t kNoSegmentation = 0;

// A large packet is an IP packet (at most 64 KiB) behind the offload header.
inline constexpr size_t kPacketBytesMax = 65535 + sizeof(OffloadHeader);

class Packet {
 public:
  // Parses what was read from the device. Nothing if the bytes are no well-formed IPv4 or IPv6
  // packet or if the offload header does not fit them.
  static std::optional<Packet> Parse(const OffloadHeader& offload, std::span<const uint8_t> ip);

  const OffloadHeader& offload() const { return offload_; }
  std::span<const uint8_t> ip() const { return ip_; }
  const Address& destination() const { return destination_; }

  // How many packets a wire would carry, and their bytes from the IP header on.
  int64_t wire_packets() const { return wire_packets_; }
  int64_t wire_bytes() const { return wire_bytes_; }
  // Bytes of the largest of them.
  int64_t wire_packet_bytes_max() const;
  // Bytes of `count` of them from `first` on.
  int64_t WireBytes(int64_t first, int64_t count) const;

  // A packet that stands for wire packets [first, first + count) of this one.
  Packet Slice(int64_t first, int64_t count) const;

  // Where the packet goes; set by the network on entry.
  int destination_site = -1;

 private:
  Packet() = default;

  OffloadHeader offload_{};
  std::vector<uint8_t> ip_;
  Address destination_{};
  int64_t wire_packets_ = 1;
  int64_t wire_bytes_ = 0;
  size_t ip_header_bytes_ = 0;  // both header sizes are set for large packets only
  size_t headers_bytes_ = 0;
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_PACKET_H_
