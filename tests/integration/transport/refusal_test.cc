// Who may link: versions, identities, duplicates, second processes, and configurations that are
// refused.
#include <catch2/catch.hpp>
#include <string>

#include "daemon/transport/channel.h"
#include "tests/integration/transport/raw_peer.h"
#include "tests/integration/transport/recorder.h"
#include "tests/integration/transport/tcp_proxy.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

bool Says(const absl::Status& status, const std::string& words) {
  return std::string(status.message()).find(words) != std::string::npos;
}

TEST_CASE("versions without overlap are refused, naming both windows on both sides") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.config.version_min = 2;
  tokyo.config.version_max = 3;
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  const std::string words = "cluster tokyo speaks 2 to 3, cluster paris speaks 1 to 1";
  REQUIRE(tokyo.recorder.Wait(
      [&](const Notes& n) { return !n.refused.empty() && Says(n.refused[0], words); }));
  REQUIRE(paris.WaitStatus(
      "tokyo", [&](const PeerStatus& s) { return s.last_error.find(words) != std::string::npos; }));
  CHECK(paris.recorder.notes().up.empty());
}

TEST_CASE("versions that overlap use the highest common one") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.config.version_max = 5;
  paris.config.version_max = 4;
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitUp("tokyo"));
  REQUIRE(tokyo.WaitUp("paris"));
  CHECK(paris.recorder.notes().links[0].version == 4);
  CHECK(tokyo.recorder.notes().links[0].version == 4);
}

TEST_CASE("a hello that claims another cluster than the certificate is refused by either side") {
  SECTION("the accepting side refuses") {
    Gateway paris("paris", "tokyo");
    Gateway tokyo("tokyo", "oslo");  // believes that whoever calls is oslo
    tokyo.AddPeer("oslo", "");
    tokyo.Start();
    paris.AddPeer("tokyo", tokyo.address());
    paris.Start();
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) {
      return !n.refused.empty() && Says(n.refused[0], "the certificate says cluster oslo");
    }));
    CHECK(tokyo.recorder.notes().up.empty());
    CHECK(paris.recorder.notes().up.empty());
  }
  SECTION("the dialling side refuses") {
    Gateway paris("paris", "oslo");  // finds oslo's certificate where tokyo should be
    Gateway tokyo("tokyo", "paris");
    tokyo.AddPeer("paris", "");
    tokyo.Start();
    paris.AddPeer("tokyo", tokyo.address());
    paris.Start();
    REQUIRE(paris.WaitStatus("tokyo", [](const PeerStatus& s) {
      return s.last_error.find("its certificate says oslo") != std::string::npos;
    }));
    CHECK(paris.recorder.notes().up.empty());
  }
  SECTION("a cluster that is not configured") {
    Gateway paris("paris", "tokyo");
    Gateway tokyo("tokyo", "paris");
    tokyo.AddPeer("oslo", "");
    tokyo.Start();
    paris.AddPeer("tokyo", tokyo.address());
    paris.Start();
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) {
      return !n.refused.empty() && Says(n.refused[0], "paris is not a configured peer of tokyo");
    }));
    REQUIRE(paris.WaitStatus("tokyo", [](const PeerStatus& s) {
      return s.last_error.find("not a configured peer") != std::string::npos;
    }));
  }
}

TEST_CASE("when both sides dial, one link remains: the lower name's") {
  for (int round = 0; round < 3; ++round) {
    Gateway paris("paris", "tokyo");
    Gateway tokyo("tokyo", "paris");
    // Addresses are needed on both sides before either starts: the proxies have them.
    Gateway placeholder("x", "y");
    placeholder.Start();
    paris.config.listen = placeholder.address();
    placeholder.Stop();
    tokyo.AddPeer("paris", paris.config.listen);
    tokyo.config.peer_timeout = paris.config.peer_timeout = absl::Milliseconds(500);
    tokyo.Start();
    paris.AddPeer("tokyo", tokyo.address());
    paris.Start();
    REQUIRE(paris.WaitUp("tokyo"));
    REQUIRE(tokyo.WaitUp("paris"));
    REQUIRE(paris.WaitLanes("tokyo", 4));
    REQUIRE(tokyo.WaitLanes("paris", 4));
    // Well past the grace of the higher name.
    const int progress = paris.recorder.notes().progress;
    REQUIRE(paris.recorder.Wait([&](const Notes& n) { return n.progress > progress + 8; }));
    CHECK(paris.Peer("tokyo").state == PeerState::kUp);
    CHECK(paris.Peer("tokyo").links == tokyo.Peer("paris").links);
    if (paris.Peer("tokyo").links == 1) CHECK(paris.Peer("tokyo").dialled_here);
    CHECK(paris.Peer("tokyo").dialled_here != tokyo.Peer("paris").dialled_here);
  }
}

TEST_CASE("the higher name dials where the lower one cannot") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  paris.AddPeer("tokyo", "");
  paris.Start();
  tokyo.AddPeer("paris", paris.address());
  tokyo.Start();
  REQUIRE(paris.WaitUp("tokyo"));
  REQUIRE(tokyo.WaitLanes("paris", 4));
  CHECK(tokyo.Peer("paris").dialled_here);
}

TEST_CASE("a second live process of a cluster is refused while the first one lives") {
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.Start();
  auto first = std::make_unique<Gateway>("paris", "tokyo", 11);
  first->AddPeer("tokyo", tokyo.address());
  first->Start();
  REQUIRE(tokyo.WaitUp("paris"));
  Gateway second("paris", "tokyo", 12);
  second.AddPeer("tokyo", tokyo.address());
  second.Start();
  REQUIRE(second.WaitStatus("tokyo", [](const PeerStatus& s) {
    return s.last_error.find("incarnation 11) is linked and alive") != std::string::npos;
  }));
  CHECK(tokyo.recorder.notes().downs.empty());
  first.reset();
  REQUIRE(second.WaitUp("tokyo"));
  // The dialler is told first.
  CHECK(tokyo.recorder.Wait([](const Recorder::Notes& notes) {
    const auto up = notes.up.find("paris");
    return up != notes.up.end() && up->second == 12;
  }));
}

// gRPC 1.51 loses the connection of a channel that goes between its handshake and the server's
// settings.
TEST_CASE("refused links leave no connection behind") {
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.Start();
  Gateway first("paris", "tokyo", 11);
  first.AddPeer("tokyo", tokyo.address());
  first.Start();
  REQUIRE(tokyo.WaitUp("paris"));
  REQUIRE(first.WaitLanes("tokyo", 4));
  for (uint64_t incarnation = 12; incarnation < 32; ++incarnation) {
    Gateway second("paris", "tokyo", incarnation);
    second.AddPeer("tokyo", tokyo.address());
    second.Start();
    REQUIRE(second.WaitStatus("tokyo", [](const PeerStatus& s) { return !s.last_error.empty(); }));
  }
  // Nothing but the first one's control stream and lanes.
  CHECK(first.WaitStatus("tokyo", [](const PeerStatus& s) { return s.tcp_connections == 5; }));
  CHECK(tokyo.recorder.notes().downs.empty());
}

TEST_CASE("a link that is disconnected comes back after the pause") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(tokyo.WaitUp("paris"));
  tokyo.transport().Disconnect("paris", absl::PermissionDeniedError("its certificate was revoked"),
                               absl::Milliseconds(300));
  REQUIRE(paris.recorder.Wait([](const Notes& n) {
    return !n.downs.empty() && Says(n.downs[0], "its certificate was revoked");
  }));
  REQUIRE(paris.recorder.Wait([](const Notes& n) { return n.links.size() == 2; }));
}

TEST_CASE("a health probe is answered") {
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.Start();
  RawPeer probe(tokyo.address(), kHealthMethod);
  probe.Write("");  // may come after the answer, which waits for no request
  CHECK(probe.Read() == std::string("\x08\x01"));
  CHECK(probe.Finish().ok());
  CHECK(tokyo.transport().Status().streams_refused == 0);
}

TEST_CASE("configurations that cannot work are refused by name") {
  auto budget = memory::Budget::Create(1 << 20);
  memory::BufferPool pool(budget, *budget->Open("transport"), 0);
  Recorder recorder;
  Gateway base("paris", "tokyo");
  base.AddPeer("tokyo", "127.0.0.1:1");
  const auto refuse = [&](auto change, const std::string& words) {
    TransportConfig config = base.config;
    change(config);
    const absl::Status status = Transport::Create(config, &pool, &recorder).status();
    INFO(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Says(status, words));
  };
  refuse([](TransportConfig& c) { c.cluster.clear(); }, "cluster");
  refuse([](TransportConfig& c) { c.incarnation = 0; }, "incarnation");
  refuse([](TransportConfig& c) { c.lanes = 33; }, "lanes");
  refuse([](TransportConfig& c) { c.lanes_total_max = 0; }, "lanes_total_max");
  refuse([](TransportConfig& c) { c.peer_timeout = absl::ZeroDuration(); }, "peer_timeout");
  refuse([](TransportConfig& c) { c.peers.push_back(c.peers[0]); }, "tokyo twice");
  refuse([](TransportConfig& c) { c.peers[0].cluster = "paris"; }, "this cluster itself");
  refuse([](TransportConfig& c) { c.peers[0].credentials = nullptr; }, "no credentials");
  refuse([](TransportConfig& c) { c.identity = nullptr; }, "identity");
  refuse([](TransportConfig& c) { c.version_min = 9; }, "version_min");

  Gateway first("paris", "tokyo");
  first.Start();
  base.config.listen = first.address();
  auto second = Transport::Create(base.config, &pool, &recorder);
  REQUIRE(second.ok());
  const absl::Status started = (*second)->Start();
  CHECK(absl::IsUnavailable(started));
  CHECK(Says(started, base.config.listen));
}

}  // namespace
}  // namespace causeway::transport
