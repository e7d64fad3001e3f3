// Formulas only; each names its reason.
#include "daemon/config/derived.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/codec.h"

namespace causeway::config {
namespace {

// Chunks of one peer that may lie between the network and the accumulator.
constexpr int64_t kReceiveWindowChunks = 32;

compression::CodecSpec SpecOf(const Codec& codec) {
  const absl::StatusOr<compression::CodecSpec> spec = compression::CodecSpec::Parse(codec.kind);
  return spec.ok() ? *spec : compression::CodecSpec{};
}

}  // namespace

Timeouts DeriveTimeouts(const Config& config) {
  const int64_t peer = config.peer_timeout_ms;
  Timeouts times;
  times.peer_timeout_ms = peer;
  times.heartbeat_ms = peer / 5;
  times.handshake_ms = peer;
  times.lane_stall_ms = peer;
  times.redial_first_ms = std::clamp<int64_t>(peer / 50, 20, 200);
  times.redial_last_ms = std::clamp<int64_t>(peer, 200, 10'000);
  times.keepalive_ms = std::max<int64_t>(peer, 10'000);
  times.keepalive_timeout_ms = std::max<int64_t>(2 * peer, 20'000);
  times.trainer_told_ms = peer + 2'000;
  times.drain_ms = 2 * peer;
  return times;
}

int64_t MemoryNeed::Total(int64_t parameters) const {
  return bytes_fixed + std::llround(bytes_per_parameter * static_cast<double>(parameters));
}

MemoryNeed DeriveMemory(const Config& config, const Run& run) {
  (void)config;
  const compression::CodecSpec spec = SpecOf(run.codec);
  const bool outer = run.algorithm.rule != Rule::kGradientAverage;
  const double wire = compression::Traits(spec.kind).BitsPerElement(spec.block) / 8;
  const double peers = static_cast<double>(run.clusters.size()) - 1;
  const int64_t chunk =
      static_cast<int64_t>(compression::EncodedSizeMax(spec, compression::kChunkElements));

  MemoryNeed need;
  need.parts = {
      {"snapshot", 4, 0, "what trainers submitted, until it is applied"},
      {"values", 8, 0, "global values of the newest two rounds, shared with trainers"},
      {"retained", wire, 0, "own encoded chunks, resent unchanged until the round is decided"},
      {"received", 0, std::llround(peers) * kReceiveWindowChunks * chunk,
       "chunks of each peer between network and sum"},
  };
  if (outer && run.algorithm.rule == Rule::kNesterov) {
    need.parts.push_back({"momentum", 4, 0, "outer momentum, fp32"});
  }
  if (spec.error_feedback) {
    need.parts.push_back({"residual", 4, 0, "bf16, committed and pending"});
  }
  need.bytes_per_parameter = 0;
  need.bytes_fixed = 0;
  for (const MemoryPart& part : need.parts) {
    need.bytes_per_parameter += part.bytes_per_parameter;
    need.bytes_fixed += part.bytes_fixed;
  }
  return need;
}

int64_t ParametersMax(const Config& config, const MemoryNeed& need) {
  const int64_t free_bytes = config.memory_bytes - need.bytes_fixed;
  if (free_bytes <= 0) return 0;
  return static_cast<int64_t>(static_cast<double>(free_bytes) / need.bytes_per_parameter);
}

}  // namespace causeway::config
