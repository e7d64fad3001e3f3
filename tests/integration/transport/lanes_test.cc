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

// Times how long the rate limit makes it take at least; loopback itself takes a hundredth.
TEST_CASE("a rate limit slows sending, and receiving by credits") {
  constexpr uint64_t kLimitBits = 80'000'000;
  constexpr uint32_t kChunks = 100;
  constexpr size_t kBytes = 128 << 10;
  const bool sender_limits = GENERATE(true, false);
  CAPTURE(sender_limits);
  Gateway paris("paris", "tokyo", 11);
  Gateway tokyo("tokyo", "paris", 22);
  tokyo.AddPeer("paris", "");
  tokyo.recorder.on_chunk = [&](const std::string& peer, const ChunkHeader& header,
                                memory::Buffer payload) {
    const size_t bytes = payload.size();
    payload.Reset();
    tokyo.transport().ReturnCredit(peer, header.run, bytes);
  };
  if (!sender_limits) tokyo.config.peers[0].rate_limit_bits = kLimitBits;
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  if (sender_limits) paris.config.peers[0].rate_limit_bits = kLimitBits;
  paris.Start();
  REQUIRE(paris.WaitLanes("tokyo", 4));
  REQUIRE(tokyo.transport().SetWindow("paris", "demo", uint64_t{1} << 30).ok());
  const absl::Time begin = absl::Now();
  for (uint32_t i = 0; i < kChunks; ++i) {
    REQUIRE(paris.SendChunk("tokyo", "demo", 1, i, kBytes).ok());
  }
  REQUIRE(paris.recorder.Wait([](const Recorder::Notes& n) { return n.done.size() == kChunks; }));
  // What may go at once: half a second of credit.
  const double limited_bytes = kChunks * kBytes - (sender_limits ? 0.02 : 0.5) * kLimitBits / 8;
  CHECK(absl::ToDoubleSeconds(absl::Now() - begin) > limited_bytes / (kLimitBits / 8.0));
  CHECK(tokyo.recorder.notes().chunks.size() == kChunks);
}

}  // namespace
}  // namespace causeway::transport
