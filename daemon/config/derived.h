// What follows from a configuration: the time-outs that peer_timeout implies and the memory of a
// run.
//
// Pure functions, any thread. `causeway check-config` prints both.
#pragma once

#include <cstdint>

#include "daemon/config/config.h"

namespace causeway::config {

// peer_timeout is the one knob; every other time in the daemon is one of these.
struct Timeouts {
  int64_t peer_timeout_ms;  // silence after which a peer is down
  int64_t heartbeat_ms;     // between heartbeats on an otherwise silent link
  int64_t hello_ms;         // connect, TLS and greeting of one connection
  int64_t lane_stall_ms;    // unacknowledged bytes without progress: the lane is broken
  int64_t redial_first_ms;  // pause before the second dial; doubles up to redial_last_ms
  int64_t redial_last_ms;
  int64_t keepalive_ms;       // of HTTP/2; only the backstop beneath the heartbeats
  int64_t keepalive_lost_ms;  // not under 20 s: a ping queues behind bulk data
  int64_t trainer_told_ms;    // a dead peer's trainers know what is known
};
Timeouts DeriveTimeouts(const Config& config);

}  // namespace causeway::config
