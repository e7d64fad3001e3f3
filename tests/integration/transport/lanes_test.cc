// How many lanes a link has: agreed, shared out between peers, and added while it runs.
#include <catch2/catch.hpp>
#include <string>

#include "daemon/transport/channel.h"
#include "proto/wan.pb.h"
#include "tests/integration/transport/raw_peer.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {
namespace {

TEST_CASE("the larger of both sides' wishes is opened, at once and while the link runs") {
  Gateway paris("paris", "tokyo", 11);
  Gateway tokyo("tokyo", "paris", 22);
  tokyo.AddPeer("paris", "");
  tokyo.config.lanes = 6;
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  SECTION("the dialler takes the acceptor's wish") {
    paris.config.lanes = 0;
    paris.Start();
    const int own = paris.WaitUp("tokyo") ? 6 : 0;
    REQUIRE(paris.WaitStatus("tokyo", [&](const PeerStatus& s) { return s.lanes_up >= own; }));
    const PeerStatus status = paris.Peer("tokyo");
    CHECK(status.lanes_wanted >= 6);
    CHECK(status.lanes_reason.find("to begin with") != std::string::npos);
    CHECK(tokyo.Peer("paris").lanes_reason == "6: as configured");
  }
  SECTION("a fixed count is not exceeded") {
    paris.config.lanes = 3;
    paris.Start();
    REQUIRE(paris.WaitLanes("tokyo", 3));
    REQUIRE(tokyo.WaitLanes("paris", 3));
    CHECK(paris.Peer("tokyo").lanes_wanted == 3);
    CHECK(tokyo.Peer("paris").lanes_wanted == 3);
  }
}

TEST_CASE("each peer gets its share of all lanes, whoever comes first") {
  Gateway tokyo("tokyo", "paris", 22);
  for (const char* name : {"oslo", "paris", "rome"}) tokyo.AddPeer(name, "");
  tokyo.config.lanes_total_max = 6;
  tokyo.Start();
  Gateway paris("paris", "tokyo", 11);
  paris.config.lanes = 8;
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitLanes("tokyo", 2));
  CHECK(paris.Peer("tokyo").lanes_wanted == 2);
}

TEST_CASE("a wish beyond all measure opens no more than was agreed") {
  Gateway tokyo("tokyo", "paris", 22);
  tokyo.AddPeer("paris", "");
  tokyo.config.peer_timeout = absl::Seconds(20);
  tokyo.Start();
  RawPeer control(tokyo.address(), kControlMethod);
  REQUIRE(control.Write(HelloFrame(5)));  // agrees on two lanes
  REQUIRE(control.Read().has_value());
  REQUIRE(tokyo.WaitUp("paris"));
  wan::v1::ControlFrame frame;
  frame.mutable_lanes()->set_wanted(0xffffffff);
  REQUIRE(control.Write(frame.SerializeAsString()));
  REQUIRE(tokyo.WaitStatus("paris", [](const PeerStatus& s) { return s.lanes_wanted == 2; }));
  CHECK(tokyo.recorder.notes().downs.empty());
}

}  // namespace
}  // namespace causeway::transport
