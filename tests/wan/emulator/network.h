// The emulated wide-area network: sites, and the pipes between them, as a full mesh or as a star.
//
// Mesh: one pipe from each site to each other ("paris>tokyo"). Star: a pipe from each site to the
// core and one back ("paris>core", "core>paris"); a packet passes two. Logic only: time comes from
// the caller. Confined to one thread.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_NETWORK_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_NETWORK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/wan/emulator/packet.h"
#include "tests/wan/emulator/pipe.h"

namespace causeway::wan_emulator {

enum class Topology { kMesh, kStar };

struct SiteCounters {
  // Wire bytes that the site's device transmitted and received.
  int64_t sent_bytes = 0, sent_packets = 0;
  int64_t received_bytes = 0, received_packets = 0;
  // Packets to addresses that no site has, multicast among them.
  int64_t unrouted_packets = 0;
};

class Network {
 public:
  struct Site {
    std::string name;
    std::vector<Address> addresses;
  };
  struct NamedPipe {
    std::string from, to;
    Pipe pipe;
  };
  using Deliver = std::function<void(int site, const Packet& packet)>;

  Network(Topology topology, std::vector<Site> sites, uint64_t seed);

  // A packet that `site`'s device transmitted.
  void Enter(int site, Packet packet, int64_t now_ns);
  // Moves everything that is due; `deliver` is called for each arrival.
  void Advance(int64_t now_ns, const Deliver& deliver);
  int64_t NextEventNs() const;

  // Changes the settings of all pipes that match "FROM>TO", where either may be "*"; "*" alone is
  // all of them. Not found: no pipe matches.
  absl::Status Configure(const std::string& pattern,
                         const std::function<absl::Status(PipeSettings&)>& change);

  // Counters and settings as one line of JSON.
  std::string StatsJson(int64_t now_ns) const;

 private:
  int SiteOf(const Address& address) const;
  Pipe& EntryPipe(int from, int to);

  const Topology topology_;
  const std::vector<Site> sites_;
  std::vector<SiteCounters> counters_;
  std::vector<NamedPipe> pipes_;  // mesh: from * n + to (the diagonal unused); star: n up, n down
  Random random_;
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_NETWORK_H_
