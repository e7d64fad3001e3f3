// What the local endpoint remembers of one fragment. Part of endpoint.cc; nobody else's.
//
// Written by the owner's thread; workers read it between Begin and Commit and each writes only what
// belongs to its own chunk.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_FRAGMENT_STATE_H_
#define CAUSEWAY_DAEMON_ENDPOINT_FRAGMENT_STATE_H_

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/call_once.h"
#include "daemon/endpoint/endpoint.h"

namespace causeway::endpoint {

struct LocalEndpoint::FragmentState {
  explicit FragmentState(uint32_t chunk_count)
      : chunks(chunk_count),
        encoded(std::make_unique<std::atomic<bool>[]>(chunk_count)),
        residual_weight(chunk_count, 0) {}

  void Open(int64_t base, uint64_t contribution_weight, uint32_t contribution_seed,
            const compression::CodecSpec& contribution_codec) {
    open = true;
    base_round = base;
    weight = contribution_weight;
    seed = contribution_seed;
    codec = contribution_codec;
    clip = std::make_unique<Clip>();
    to_read.store(chunks);
    encoded_count.store(0);
    for (uint32_t i = 0; i < chunks; ++i) encoded[i].store(false);
  }

  void MarkEncoded(uint32_t chunk) {
    const bool before = encoded[chunk].exchange(true);
    assert(!before && "a chunk is encoded once a contribution");
    (void)before;
    // By the last that reads the snapshot, and before the owner can see that all are encoded.
    if (to_read.fetch_sub(1) == 1) device.reset();
    encoded_count.fetch_add(1);
  }

  bool AllEncoded() const { return encoded_count.load() == chunks; }

  // By how much the open contribution's gradient is shortened: measured by its first encoder.
  struct Clip {
    absl::once_flag once;
    absl::StatusOr<float> factor = 1.0f;
  };

  const uint32_t chunks;
  int64_t held[2] = {kNoRound, kNoRound};  // rounds in the two slots

  bool open = false;
  // Where the snapshot lies: of the next contribution, and of the open one until it is encoded.
  // Null: in the segment.
  std::shared_ptr<const DeviceSnapshots> next_device;
  std::shared_ptr<const DeviceSnapshots> device;
  int64_t base_round = kNoRound;
  bool from_older =
      false;  // of the snapshot: the work in it started from the value before the base
  uint64_t weight = 0;
  uint32_t seed = 0;
  compression::CodecSpec codec;
  std::unique_ptr<Clip> clip;
  std::unique_ptr<std::atomic<bool>[]> encoded;  // by chunk, of the open contribution
  std::atomic<uint32_t> to_read{0};
  std::atomic<uint32_t> encoded_count{0};

  uint64_t residual_first = 0;  // element of this fragment's residual in either half
  int committed_half = 0;
  // By chunk: the weight for which the committed residual is scaled; 0: it is zero, whatever lies
  // in the memory.
  std::vector<uint64_t> residual_weight;
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_FRAGMENT_STATE_H_
