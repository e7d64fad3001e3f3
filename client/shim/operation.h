// What the shim knows of one submission, from the snapshot to the applied result.
//
// Plain data, owned by a Session and guarded by its lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "client/shim/failure.h"
#include "client/shim/layout.h"
#include "client/shim/mapping.h"

namespace causeway::client {

// The memory of one joined session. Shared by the session and by the operations that still need it
// after the gateway was restarted: the pages live as long as somebody maps them.
struct Areas {
  Mapping snapshot;
  std::shared_ptr<void> pin;  // of the snapshot, for copies off a GPU; shared with nobody
  Mapping values;
  Layout layout;

  uint8_t* SnapshotOf(uint32_t fragment) const {
    return snapshot.data() + layout.fragments()[fragment].snapshot_offset;
  }
  // The fp32 value of a round (not negative).
  const float* ValueOf(uint32_t fragment, int64_t round) const {
    const uint64_t offset = layout.fragments()[fragment].values_offset[round % 2];
    return reinterpret_cast<const float*>(values.data() + offset);
  }
};

struct Operation {
  uint64_t id = 0;  // what the trainer holds
  // How the gateway knows it: changes when it is submitted again to a restarted gateway.
  uint64_t wire_session = 0;
  uint64_t wire_op = 0;
  uint64_t submit_sequence = 0;
  uint64_t query_sequence = 0;  // of the Query that waits for its answer; 0: none
  bool acknowledged = false;
  bool copying = false;    // off the GPU; the gateway does not know it yet
  bool on_device = false;  // its snapshot lies in the device memory shared with the gateway

  uint32_t fragment = 0;
  int64_t base_round = 0;
  uint64_t weight = 0;
  uint8_t origin = CW_ORIGIN_BASE;
  std::string label;  // for the state that its round commits; empty: none

  cw_result result{};
  Status failure;                // where result.state is FAILED
  std::shared_ptr<Areas> sent;   // holds the snapshot
  std::shared_ptr<Areas> base;   // holds the base's value
  std::shared_ptr<Areas> fresh;  // holds the result, once there is one
  bool told = false;             // the trainer was told that it ended

  bool ended() const {
    return result.state == CW_STATE_COMMITTED || result.state == CW_STATE_EXCLUDED ||
           result.state == CW_STATE_FAILED || result.state == CW_STATE_ABANDONED;
  }
  bool has_result() const {
    return result.state == CW_STATE_COMMITTED || result.state == CW_STATE_EXCLUDED;
  }
};

// Of a fragment, as the trainer stands.
struct Progress {
  int64_t base_round = -1;    // applied last
  int64_t newest_round = -1;  // newest that can be read
  int64_t told_round = -1;    // of the last Applied that this session of the gateway got
  bool stale = false;         // the gateway holds another value than the base: REBASE
  uint64_t op = 0;            // unapplied operation, or 0
  // Where the time for the next Applied's computing_us begins; the clock's start: nowhere yet.
  std::chrono::steady_clock::time_point computing_since{};
  std::chrono::steady_clock::duration waited_then{};
  std::shared_ptr<Areas> base;    // holds the value of base_round
  std::shared_ptr<Areas> newest;  // holds the value of newest_round
};

}  // namespace causeway::client
