// Two clusters that cannot reach each other link through a third one, which can neither read nor
// change what it forwards.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/transport/fake_relay.h"
#include "tests/integration/transport/recorder.h"
#include "tests/integration/transport/tls_gateway.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

constexpr char kRun[] = "a-run-whose-name-stands-in-every-chunk";
constexpr size_t kBytes = 100'000;

void ConsumeAtOnce(Gateway& gateway) {
  gateway.recorder.on_chunk = [&gateway](const std::string& peer, const ChunkHeader& header,
                                         memory::Buffer payload) {
    const size_t bytes = payload.size();
    payload.Reset();
    gateway.transport().ReturnCredit(peer, header.run, bytes);
  };
}

// paris and tokyo, each of which dials oslo and has nothing but it to reach the other.
struct Ends {
  explicit Ends(Authority& authority)
      : paris(authority, "paris", {"oslo", "tokyo"}), tokyo(authority, "tokyo", {"oslo", "paris"}) {
    tokyo.gateway.config.incarnation = 2;
    for (TlsGateway* end : {&paris, &tokyo}) {
      end->gateway.config.listen.clear();
      ConsumeAtOnce(end->gateway);
    }
  }
  void Start(const std::string& relay_address) {
    for (TlsGateway* end : {&paris, &tokyo}) {
      const std::string other = end == &paris ? "tokyo" : "paris";
      end->AddPeer("oslo", relay_address);
      end->AddPeer(other, "");
      end->gateway.config.peers.back().relay = "oslo";
      end->gateway.Start();
    }
  }
  void Open() {
    REQUIRE(paris.gateway.WaitUp("tokyo"));
    REQUIRE(tokyo.gateway.WaitUp("paris"));
    REQUIRE(paris.gateway.transport().SetWindow("tokyo", kRun, 8 << 20).ok());
    REQUIRE(tokyo.gateway.transport().SetWindow("paris", kRun, 8 << 20).ok());
  }
  // Chunks of `round` each way, all of which arrive.
  void Exchange(int64_t round, uint32_t chunks) {
    for (Gateway* gateway : {&paris.gateway, &tokyo.gateway}) gateway->recorder.Clear();
    for (uint32_t i = 0; i < chunks; ++i) {
      REQUIRE(paris.gateway.SendChunk("tokyo", kRun, round, i, kBytes).ok());
      REQUIRE(tokyo.gateway.SendChunk("paris", kRun, round, i, kBytes).ok());
    }
    for (Gateway* gateway : {&paris.gateway, &tokyo.gateway}) {
      REQUIRE(gateway->recorder.Wait(
          [&](const Notes& n) { return n.chunks.size() == chunks && n.done.size() == chunks; }));
      for (const ChunkNote& note : gateway->recorder.notes().chunks) CHECK(note.intact);
    }
  }

  TlsGateway paris;
  TlsGateway tokyo;
};

struct Relay {
  Relay(Authority& authority, bool allowed) : oslo(authority, "oslo", {"paris", "tokyo"}) {
    oslo.AddPeer("paris", "");
    oslo.AddPeer("tokyo", "");
    if (allowed) oslo.gateway.config.relay = {{"paris", "tokyo"}};
  }
  TlsGateway oslo;
};

TEST_CASE("two clusters exchange through a relay, which shows what it carries") {
  Authority authority;
  Relay relay(authority, /*allowed=*/true);
  relay.oslo.gateway.Start();
  Ends ends(authority);
  ends.Start(relay.oslo.gateway.address());
  ends.Open();
  ends.Exchange(1, 100);
  const PeerStatus status = ends.paris.gateway.Peer("tokyo");
  CHECK(status.relay == "oslo");
  CHECK(status.address.empty());
  CHECK(status.rtt > absl::ZeroDuration());
  REQUIRE(ends.paris.gateway.WaitLanes("tokyo", 4));
  const TransportStatus carried = relay.oslo.gateway.transport().Status();
  REQUIRE(carried.relayed.size() == 1);
  CHECK(carried.relayed[0].first == "paris");
  CHECK(carried.relayed[0].second == "tokyo");
  CHECK(carried.relayed[0].tunnels >= 5);  // a control stream and four lanes
  CHECK(carried.relayed[0].bytes > 2 * 100 * kBytes);
  // Nothing of it was meant for the relay.
  CHECK(relay.oslo.gateway.recorder.notes().chunks.empty());

  // The relay ends the tunnels of a cluster that it does not trust any more.
  relay.oslo.gateway.transport().Disconnect("tokyo", absl::PermissionDeniedError("revoked"),
                                            absl::Milliseconds(200));
  REQUIRE(ends.paris.gateway.recorder.Wait([](const Notes& n) { return !n.downs.empty(); }));
  // It is trusted again.
  REQUIRE(ends.paris.gateway.WaitUp("oslo"));
  ends.Open();
  ends.Exchange(2, 20);
}

TEST_CASE("a pair has its share of a relay's tunnels, and leaves the others theirs") {
  Authority authority;
  Relay relay(authority, /*allowed=*/true);
  for (int i = 0; i < kTunnelsTotalMax; ++i) {
    relay.oslo.gateway.config.relay.emplace_back(absl::StrCat("a", i), absl::StrCat("b", i));
  }
  relay.oslo.gateway.Start();
  Ends ends(authority);
  for (TlsGateway* end : {&ends.paris, &ends.tokyo}) {
    end->gateway.config.lanes = 2 * kTunnelsPerPairMin;
  }
  ends.Start(relay.oslo.gateway.address());
  ends.Open();
  REQUIRE(ends.paris.gateway.WaitLanes("tokyo", kTunnelsPerPairMin - 1));
  ends.Exchange(1, 20);
  REQUIRE(relay.oslo.gateway.recorder.Wait([](const Notes& n) {
    return std::any_of(n.refused.begin(), n.refused.end(), [](const absl::Status& reason) {
      return reason.message().find("a pair's share of this relay") != absl::string_view::npos;
    });
  }));
  int tunnels = 0;
  for (const RelayedPair& pair : relay.oslo.gateway.transport().Status().relayed) {
    tunnels += pair.tunnels;
  }
  CHECK(tunnels == kTunnelsPerPairMin);
}

TEST_CASE("a relay that is not told to relay a pair refuses, and says so") {
  Authority authority;
  Relay relay(authority, /*allowed=*/false);
  relay.oslo.gateway.Start();
  Ends ends(authority);
  ends.Start(relay.oslo.gateway.address());
  REQUIRE(ends.paris.gateway.WaitStatus("tokyo", [](const PeerStatus& s) {
    return s.last_error.find(
               "relay oslo: cluster oslo relays nothing between clusters paris and "
               "tokyo") != std::string::npos;
  }));
  CHECK(ends.tokyo.gateway.recorder.notes().up.count("paris") == 0);
  CHECK(relay.oslo.gateway.transport().Status().relayed.empty());
}

TEST_CASE("a relay can neither read nor change what it forwards") {
  Authority authority;
  std::shared_ptr<security::Credentials> oslo = authority.Issue("oslo", {"paris", "tokyo"});
  FakeRelay relay(oslo->server());
  Ends ends(authority);
  // Nobody sends heartbeats at the fake one, so nobody is missed for a while.
  ends.paris.gateway.config.peer_timeout = ends.tokyo.gateway.config.peer_timeout =
      absl::Seconds(20);
  ends.Start(relay.address());
  ends.Open();
  ends.Exchange(1, 30);
  const std::string seen = relay.Seen();
  CHECK(seen.size() > 60 * kBytes);
  CHECK(seen.find(kRun) == std::string::npos);
  ChunkHeader header;
  header.round = 1;
  std::string payload(64, '\0');
  FillPayload(header, {reinterpret_cast<std::byte*>(payload.data()), payload.size()});
  CHECK(seen.find(payload) == std::string::npos);

  ends.paris.gateway.recorder.Clear();
  ends.tokyo.gateway.recorder.Clear();
  relay.Tamper(8000);  // chunks are changed, what keeps links alive is not
  for (uint32_t i = 0; i < 30; ++i) {
    const absl::Status sent = ends.paris.gateway.SendChunk("tokyo", kRun, 2, i, kBytes);
    if (!sent.ok()) break;  // the link is gone already
  }
  REQUIRE(ends.paris.gateway.recorder.Wait(
      [](const Notes& n) { return !n.lanes_broken.empty() || !n.downs.empty(); }));
  relay.Tamper(0);
  for (const ChunkNote& note : ends.tokyo.gateway.recorder.notes().chunks) CHECK(note.intact);
}

}  // namespace
}  // namespace causeway::transport
