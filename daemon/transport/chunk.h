// ChunkHeader: the name of one encoded chunk, as it travels before the chunk's bytes.
//
// A plain value. What the names mean is the engine's (daemon/ROUNDS.md) and what the bytes mean is
// the codec's (compression/FORMAT.md); the transport only carries them.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_CHUNK_H_
#define CAUSEWAY_DAEMON_TRANSPORT_CHUNK_H_

#include <cstdint>
#include <string>

namespace causeway::transport {

// Values of wan.proto's ChunkKind.
enum class ChunkKind : uint8_t {
  kContribution = 1,  // a cluster's encoded input
  kResult = 2,        // an owner's re-encoded sum (three and more clusters)
  kState = 3,         // outer state for a joiner
};

struct EpochName {
  uint64_t counter = 0;
  std::string candidate;

  friend bool operator==(const EpochName&, const EpochName&) = default;
};

struct ChunkHeader {
  std::string run;
  EpochName epoch;
  uint64_t lineage = 0;
  uint32_t fragment = 0;
  int64_t round = 0;
  uint32_t attempt = 0;
  uint64_t incarnation = 0;  // of the contributor
  ChunkKind kind = ChunkKind::kContribution;
  uint32_t index = 0;  // which chunk of the fragment

  friend bool operator==(const ChunkHeader&, const ChunkHeader&) = default;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_CHUNK_H_
