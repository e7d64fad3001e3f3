// One end of a measured link, whatever carries it.
#ifndef CAUSEWAY_TESTS_BENCH_TRANSPORT_BENCH_END_H_
#define CAUSEWAY_TESTS_BENCH_TRANSPORT_BENCH_END_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace causeway::bench {

struct Options {
  std::string cluster, peer;
  std::string pki;     // directory with gateway.pem, gateway.key, ca.pem
  std::string listen;  // empty: dials only
  std::string dial;    // empty: waits
  int lanes = 4;       // 0: auto
  uint64_t chunk_bytes = 256 << 10;
  uint64_t window_bytes = 64 << 20;
  uint64_t memory_bytes = uint64_t{256} << 20;
  bool stall = false;  // takes chunks and never gives their memory back
};

struct Counts {
  uint64_t bytes_received = 0;
  uint64_t bytes_unacknowledged = 0;
  uint64_t chunks_resent = 0;
  uint64_t bytes_resent = 0;
  uint64_t lanes_broken = 0;
  uint64_t lanes_up = 0;
  std::string lanes_reason;
  uint64_t links = 0;
  std::string down;  // why the newest link that ended did
};

class BenchEnd {
 public:
  virtual ~BenchEnd() = default;
  virtual bool Up() = 0;  // linked, with all lanes
  virtual void StartSending() = 0;
  virtual void StopSending() = 0;
  virtual Counts Count() = 0;
  // Sends so many chunks; how long until the last of them was acknowledged. Not while it sends
  // without end.
  virtual absl::Duration Send(uint64_t chunks) = 0;
  // Round trips of single messages, one after another.
  virtual std::vector<absl::Duration> Ping(int count) = 0;
};

absl::StatusOr<std::unique_ptr<BenchEnd>> MakeLanesEnd(const Options& options);
// OpenSSL over plain sockets, a thread for each: what the same bytes cost at least.
absl::StatusOr<std::unique_ptr<BenchEnd>> MakeRawTlsEnd(const Options& options);

}  // namespace causeway::bench

#endif  // CAUSEWAY_TESTS_BENCH_TRANSPORT_BENCH_END_H_
