// What one configuration file says, checked and with defaults filled in. Plain data; no thread owns
// it.
//
// parse.h turns a YAML file into this or into a list of every error with line and column.
// deploy/config/causeway.yaml explains each key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::config {

inline constexpr int kPeersMax = 63;
inline constexpr int kRunsMax = 64;
inline constexpr int kLanesMax = 32;        // as daemon/transport/limits.h, per peer
inline constexpr int kLanesTotalMax = 128;  // over all peers, dialled and accepted
inline constexpr int kWorkersMax = 256;
inline constexpr int kFragmentsMax = 256;  // as proto/local_protocol.h
inline constexpr int kDeniedKeysMax = 1024;
inline constexpr int64_t kRateLimitBitsMin = 1'000'000;
inline constexpr int64_t kRateLimitBitsMax = int64_t{1'000'000} * 1'000'000;
inline constexpr int64_t kMemoryBytesMin = int64_t{64} << 20;
inline constexpr int64_t kMemoryBytesMax = int64_t{16} << 40;
inline constexpr int64_t kPeerTimeoutMsMin = 200;
inline constexpr int64_t kPeerTimeoutMsMax = 10 * 60 * 1000;

struct Tls {
  std::string certificate;  // PEM files
  std::string key;
  std::string authority;
  std::vector<std::string> denied_spki_sha256;  // hex; `deny:`
};

struct Peer {
  std::string cluster;
  std::string address;          // host:port; empty: this side dials only what the peer advertises
  std::string relay;            // the peer through which it is reached; empty: directly
  int64_t rate_limit_bits = 0;  // a second, each way; 0: none

  bool operator==(const Peer&) const = default;
};

struct Trainers {
  std::string socket = "/run/causeway/trainer.sock";
  std::string group;  // empty: the process's own group
  uint32_t mode = 0660;

  bool operator==(const Trainers&) const = default;
};

// `average`, `nesterov`, `sparseloco`, `co2`, `eager`, `gradients`.
enum class Rule { kAverage, kNesterov, kSparseLoco, kCo2, kEager, kGradientAverage };
const char* RuleName(Rule rule);

struct Algorithm {
  Rule rule = Rule::kAverage;
  double learning_rate = 1.0;         // eta; 1 for average and gradients
  double momentum = 0.0;              // mu; 0 where the rule has none; of gradients: DGC's
  double final_learning_rate = 1.0;   // that learning_rate goes to over `schedule_rounds`
  uint32_t schedule_rounds = 0;       // 0: no schedule
  double clip = 0.0;                  // of co2's momentum, or of gradients' norm; 0: none
  double penalty = 1.0;               // co2's L, unless `gap_penalty`
  bool gap_penalty = false;           // `penalty: gap`
  uint32_t penalty_window = 0;        // norms that C remembers; 0: all
  uint32_t local_steps = 1;           // H of this cluster
  std::vector<uint32_t> steps_of;     // H by cluster, as Run::clusters; empty: all the same
  bool normalise_steps = false;       // `normalise: steps`
  uint32_t fragments = 1;             // P
  std::optional<uint32_t> delay = 0;  // d in steps; nullopt: `auto`
  bool mean_of_senders = false;       // `mean: senders` (sparseloco)
  std::optional<double> mix;          // a of a late result's (1-a) new + a now; nullopt: carry
  // Results are a whole round late and replace what was trained meanwhile (co2, eager).
  bool round_late = false;

  bool CorrectsGradients() const {
    return rule == Rule::kGradientAverage && (momentum > 0 || clip > 0);
  }
  bool operator==(const Algorithm&) const = default;
};

// Whether the gateway's codecs may run on a GPU of this machine.
enum class Gpu { kAuto, kRequired, kOff };

struct Codec {
  // As compression::CodecSpec::Parse reads it; with a ladder what a run begins with, its last.
  std::string kind = "fp32";
  bool error_feedback = false;
  bool residual_fp32 = false;       // how this gateway keeps its residual; else bf16
  std::vector<std::string> ladder;  // `auto`: canonical texts, least lossy first; empty: fixed

  bool operator==(const Codec&) const = default;
};

// How contributions go: to everybody, to the owners of their chunks, or whichever is faster.
enum class Route { kAuto, kDirect, kOwner };

struct Run {
  std::string name;
  std::vector<std::string> clusters;  // sorted; contains this cluster
  std::string seed;                   // whose parameters a new run takes; default: the lowest name
  std::string primary;                // decides an exact half; empty: none
  Algorithm algorithm;
  Codec codec;
  Route route = Route::kAuto;
  int64_t wait_timeout_ms = 0;  // 0: a trainer waits for ever
  int64_t grace_ms =
      0;  // `stragglers: {policy: deadline}`: the least that a round waits; 0: `wait`

  bool operator==(const Run&) const = default;
};

// How far the outer state on disk may be behind; 0 and 0: it is not kept there.
struct Checkpoint {
  int64_t rounds = 20;
  int64_t interval_ms = 60'000;
  int64_t snapshots = 4;  // labelled by trainers, of a run; 0: none is kept

  bool operator==(const Checkpoint&) const = default;
};

struct Config {
  std::string cluster;
  std::string listen = "[::]:7443";
  std::string domain =
      "causeway.internal";  // of the identities: spiffe://<domain>/gateway/<cluster>
  Tls tls;
  std::string advertise;  // host:port where others reach this gateway; empty: told nobody
  std::vector<Peer> peers;
  // Pairs of peers whose traffic this gateway forwards, each in order of names.
  std::vector<std::pair<std::string, std::string>> relay;
  Trainers trainers;
  int64_t peer_timeout_ms = 10'000;
  int lanes = 0;    // TCP connections per peer, beside the control connection; 0: `auto`
  int workers = 0;  // threads that encode and reduce; 0: one per core, at most 8
  Gpu gpu = Gpu::kAuto;
  int64_t memory_bytes = int64_t{4} << 30;  // the budget
  Checkpoint checkpoint;
  std::vector<Run> runs;
  std::string metrics_listen;  // `metrics: {listen}`; empty: none
  std::string admin_socket = "/run/causeway/admin.sock";
  std::string admin_group;  // of the admin socket; empty: the process's own group
  std::string state_directory = "/var/lib/causeway";
  std::string log_level = "info";   // debug, info, warning, error
  std::string log_format = "text";  // text: key=value; json
};

}  // namespace causeway::config
