// What follows from a configuration: the time-outs that peer_timeout implies and the memory of a
// run.
//
// Pure functions, any thread. `causeway check-config` prints both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/config.h"

namespace causeway::config {

// peer_timeout is the one knob; every other time in the daemon is one of these.
struct Timeouts {
  int64_t peer_timeout_ms;  // silence after which a peer is down
  int64_t heartbeat_ms;     // between heartbeats on an otherwise silent link
  int64_t handshake_ms;     // connect, TLS and Hello of one connection
  int64_t lane_stall_ms;    // unacknowledged bytes without progress: the lane is broken
  int64_t redial_first_ms;  // pause before the first redial; doubles up to redial_last_ms
  int64_t redial_last_ms;
  int64_t keepalive_ms;          // of HTTP/2; only the backstop beneath the heartbeats
  int64_t keepalive_timeout_ms;  // not under 20 s: a ping queues behind bulk data
  int64_t trainer_told_ms;       // a dead peer's trainers know what is known
  int64_t drain_ms;              // SIGTERM to exit at most, while bytes do not move
};
Timeouts DeriveTimeouts(const Config& config);

// One named part of a run's memory: bytes_per_parameter x parameters + bytes_fixed.
struct MemoryPart {
  std::string name;
  double bytes_per_parameter;
  int64_t bytes_fixed;
  std::string reason;
};

struct MemoryNeed {
  std::vector<MemoryPart> parts;
  double bytes_per_parameter;  // sum over the parts
  int64_t bytes_fixed;

  int64_t Total(int64_t parameters) const;
};

// What this gateway holds for a run of fp32 parameters at its peak.
MemoryNeed DeriveMemory(const Config& config, const Run& run);

// The most parameters that the budget carries when this run is alone; 0: not even the fixed part
// fits.
int64_t ParametersMax(const Config& config, const MemoryNeed& need);

}  // namespace causeway::config
