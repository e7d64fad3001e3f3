// Limits of the link between two gateways. proto/WIRE.md lists them; changing one is a wire change.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LIMITS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace causeway::transport {

// The window of protocol versions that this build speaks.
inline constexpr uint32_t kVersionMin = 1;
inline constexpr uint32_t kVersionMax = 1;

inline constexpr size_t kNameBytesMax = 128;              // a cluster's or a run's name
inline constexpr size_t kAddressBytesMax = 261;           // host:port
inline constexpr size_t kTextBytesMax = 512;              // software, reasons
inline constexpr size_t kControlFrameBytesMax = 1 << 20;  // one serialised ControlFrame
inline constexpr size_t kChunkBytesMax = 2 << 20;         // the payload of one chunk
inline constexpr size_t kLaneHeaderBytesMax = 1024;       // a LaneFrame without its payload
inline constexpr size_t kLaneFrameBytesMax = kChunkBytesMax + kLaneHeaderBytesMax;

inline constexpr int kPeersMax = 64;
inline constexpr int kLanesPerPeerMax = 32;
inline constexpr int kPendingStreamsMax = 256;      // accepted, hello not yet received
inline constexpr int kStreamsPerConnectionMax = 8;  // one of ours, a health check or two
inline constexpr int kRunsPerPeerMax = 64;          // runs that have a window here at a time
inline constexpr int kCreditRunsMax = 1024;         // runs that a peer may name on one link

// A chunk costs at least this much credit, so that empty ones are bounded too.
inline constexpr uint64_t kChunkCreditBytesMin = 1024;
// The largest window, and the smallest: any chunk must fit, or it would wait for ever.
inline constexpr uint64_t kWindowBytesMin = kChunkBytesMax;
inline constexpr uint64_t kWindowBytesMax = uint64_t{64} << 30;

// Tunnels through a relay: of one pair of clusters, and of one end to one peer; of one relay, in
// equal shares of its pairs, so that none finds them taken; what a pair gets however many there
// are.
inline constexpr int kTunnelsPerPairMax = 2 * (kLanesPerPeerMax + 2);
inline constexpr int kTunnelsTotalMax = 256;
inline constexpr int kTunnelsPerPairMin = 6;
inline constexpr size_t kTunnelReadBytesMax = 256 << 10;  // what one frame carries
inline constexpr size_t kRelayPairsMax = 1024;

// What the kernel may hold unsent of a connection: enough to keep it busy, little enough that
// chunks wait in our queue, where they can still be ordered and sent over another lane.
inline constexpr int kUnsentBytesMax = 128 << 10;

// Link-wide chunk numbers in flight: first unacknowledged to newest. Bounds the receiver's memory
// of what arrived out of order over several lanes.
inline constexpr uint64_t kChunksInFlightMax = 1 << 16;
// Waiting at the sender, per peer. The bytes are charged to whoever encoded them.
inline constexpr size_t kChunksQueuedMax = 1 << 17;
inline constexpr size_t kControlQueueBytesMax = 8 << 20;

// Credit that a chunk of this payload takes.
inline constexpr uint64_t ChunkCredit(uint64_t payload_bytes) {
  return payload_bytes < kChunkCreditBytesMin ? kChunkCreditBytesMin : payload_bytes;
}

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LIMITS_H_
