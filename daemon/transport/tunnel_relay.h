// TunnelRelay: this gateway between two others that cannot reach each other.
//
// One end opens a Tunnel stream that names the other; the relay offers it to that one, whose own
// Tunnel stream answers; from then on frames of either go to the other as they came. What is inside
// is TLS between the ends. Allowed are configured pairs only, a bounded number of tunnels, and one
// frame of each direction is held. Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_RELAY_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_RELAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/transport.h"
#include "daemon/transport/tunnel_frame.h"

namespace causeway::transport {

struct Shared;

class TunnelRelay {
 public:
  // Says to a linked peer that `from` wants to reach it; false: no link.
  using Offer =
      std::function<bool(const std::string& to, uint64_t tunnel, const std::string& from)>;

  TunnelRelay(Shared& shared, Offer offer);
  ~TunnelRelay();

  // A stream of the proven cluster `hello.cluster`. An error refuses it; it is the caller's again.
  absl::Status Admit(ByteStream* stream, const TunnelHelloFrame& hello, absl::Time now);
  // Ends the tunnels of a cluster that is not trusted any more, or of all ("").
  void End(const std::string& cluster, const absl::Status& reason);
  std::vector<RelayedPair> Status() const;

 private:
  class Splice;
  struct Pair {
    int tunnels = 0;
    uint64_t bytes = 0;
  };
  using PairName = std::pair<std::string, std::string>;

  absl::Status Open(ByteStream* stream, const TunnelHelloFrame& hello, absl::Time now);
  absl::Status Answer(ByteStream* stream, const TunnelHelloFrame& hello);
  void Over(Splice* splice);

  Shared& shared_;
  const Offer offer_;
  std::map<PairName, Pair> pairs_;  // those allowed
  const int tunnels_each_;          // at most, of a pair
  std::map<uint64_t, std::unique_ptr<Splice>> splices_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TUNNEL_RELAY_H_
