// Packets: wire accounting, cutting at wire packet borders, malformed input.
#include "tests/wan/emulator/packet.h"

#include <catch2/catch.hpp>

#include "tests/unit/wan_emulator/test_packets.h"

namespace causeway::wan_emulator {
namespace {

uint32_t Big(std::span<const uint8_t> bytes, size_t offset, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[offset + i];
  return value;
}

TEST_CASE("a large packet counts as what a wire would carry") {
  const Packet packet = TcpPacket(3500, 1000);
  CHECK(packet.wire_packets() == 4);
  CHECK(packet.wire_bytes() == 3500 + 4 * 40);
  CHECK(packet.WireBytes(0, 1) == 1040);
  CHECK(packet.WireBytes(3, 1) == 540);
  CHECK(packet.wire_packet_bytes_max() == 1040);
  CHECK(TcpPacket(500, 0).wire_bytes() == 540);
}

TEST_CASE("slices are the wire packets: sequence, flags, lengths, checksum, payload") {
  const Packet packet = TcpPacket(3500, 1000, 0xfffffc00);
  const Packet middle = packet.Slice(1, 2);
  CHECK(middle.wire_packets() == 2);
  CHECK(middle.ip().size() == 2040);
  CHECK(Big(middle.ip(), 2, 2) == 2040);
  CHECK(Big(middle.ip(), 4, 2) == 1);
  CHECK(Big(middle.ip(), 24, 4) == 0xfffffc00 + 1000);
  CHECK(middle.ip()[33] == 0x10);
  CHECK(middle.ip()[40] == packet.ip()[1040]);
  CHECK(middle.offload().segmentation == kTestTcp4);

  const Packet last = packet.Slice(3, 1);
  CHECK(last.ip().size() == 540);
  CHECK(last.offload().segmentation == kNoSegmentation);
  CHECK(Big(last.ip(), 24, 4) == 0xfffffc00u + 3000u);
  CHECK(last.ip()[33] == 0x19);  // FIN and PSH stay with the last, CWR with the first
  CHECK(packet.Slice(0, 1).ip()[33] == 0x90);

  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) sum += Big(last.ip(), i, 2);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  CHECK(sum == 0xffff);  // a valid IPv4 header sums to all ones
  // The TCP checksum holds the pseudo header's sum: addresses, protocol, TCP length.
  CHECK(Big(last.ip(), 36, 2) == 0x0a4d + 0x0001 + 0x0a4d + 0x0002 + 6 + 520);
}

TEST_CASE("what is no IP packet is refused") {
  OffloadHeader plain{};
  const std::vector<uint8_t> good = TcpBytes(100, 1);
  CHECK(Packet::Parse(plain, good));
  for (size_t size = 0; size < 20; ++size) {
    CHECK_FALSE(Packet::Parse(plain, std::span(good).first(size)));
  }
  std::vector<uint8_t> version = good;
  version[0] = 0x55;
  CHECK_FALSE(Packet::Parse(plain, version));
  std::vector<uint8_t> long_header = good;
  long_header[0] = 0x4f;
  CHECK_FALSE(Packet::Parse(plain, std::span(long_header).first(40)));

  OffloadHeader segmented{};
  segmented.segmentation = kTestTcp4;
  CHECK_FALSE(Packet::Parse(segmented, good));  // segments of no bytes
  segmented.segment_bytes = 50;
  CHECK(Packet::Parse(segmented, good));
  CHECK_FALSE(Packet::Parse(segmented, std::span(good).first(39)));
  std::vector<uint8_t> tcp_header = good;
  tcp_header[32] = 0x10;
  CHECK_FALSE(Packet::Parse(segmented, tcp_header));
}

TEST_CASE("IPv6 destinations are told apart from IPv4 ones") {
  std::vector<uint8_t> ip(60);
  ip[0] = 0x60;
  ip[24] = 0xfd;
  ip[39] = 2;
  const std::optional<Packet> packet = Packet::Parse({}, ip);
  REQUIRE(packet);
  CHECK(packet->destination()[0] == 0xfd);
  CHECK(packet->destination()[15] == 2);
  CHECK(TcpPacket(10, 0).destination()[10] == 0xff);
}

}  // namespace
}  // namespace causeway::wan_emulator
