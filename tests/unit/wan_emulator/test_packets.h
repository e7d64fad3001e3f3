// Packets for the emulator's tests: a large IPv4 TCP packet as a TUN device with offload gives it.
#ifndef CAUSEWAY_TESTS_UNIT_WAN_EMULATOR_TEST_PACKETS_H_
#define CAUSEWAY_TESTS_UNIT_WAN_EMULATOR_TEST_PACKETS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/wan/emulator/packet.h"

namespace causeway::wan_emulator {

inline constexpr size_t kTestHeadersBytes = 40;
inline constexpr uint8_t kTestTcp4 = 1;  // VIRTIO_NET_HDR_GSO_TCPV4

// `payload` bytes behind 20 + 20 header bytes; with `segment` > 0 they stand for several wire
// packets.
inline std::vector<uint8_t> TcpBytes(size_t payload, uint32_t sequence) {
  std::vector<uint8_t> ip(kTestHeadersBytes + payload);
  ip[0] = 0x45;
  ip[2] = static_cast<uint8_t>(ip.size() >> 8);
  ip[3] = static_cast<uint8_t>(ip.size());
  ip[9] = 6;
  const uint8_t addresses[8] = {10, 77, 0, 1, 10, 77, 0, 2};
  for (size_t i = 0; i < 8; ++i) ip[12 + i] = addresses[i];
  for (size_t i = 0; i < 4; ++i) ip[24 + i] = static_cast<uint8_t>(sequence >> (24 - 8 * i));
  ip[32] = 0x50;
  ip[33] = 0x99;  // CWR, ACK, PSH, FIN
  for (size_t i = 0; i < payload; ++i) ip[kTestHeadersBytes + i] = static_cast<uint8_t>(i * 7);
  return ip;
}

inline Packet TcpPacket(size_t payload, uint16_t segment, uint32_t sequence = 1000) {
  OffloadHeader offload{};
  offload.segmentation = segment > 0 ? kTestTcp4 : kNoSegmentation;
  offload.segment_bytes = segment;
  return *Packet::Parse(offload, TcpBytes(payload, sequence));
}

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_UNIT_WAN_EMULATOR_TEST_PACKETS_H_
