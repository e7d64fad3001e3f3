// Pipes and the network in virtual time: rate, delay, order, loss, queue, darkness.
#include "tests/wan/emulator/pipe.h"

#include <catch2/catch.hpp>

#include "tests/unit/wan_emulator/test_packets.h"
#include "tests/wan/emulator/command.h"
#include "tests/wan/emulator/network.h"

namespace causeway::wan_emulator {
namespace {

constexpr uint64_t kSeed = 20240611;
constexpr int64_t kMs = 1'000'000;

TEST_CASE("serialisation and delay add up; packets stay in order") {
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.rate_bits_per_second = 8e6, .delay_ns = 50 * kMs});  // 1 byte a microsecond
  pipe.Accept(TcpPacket(960, 0), 0, random);
  pipe.Accept(TcpPacket(460, 0), 0, random);
  CHECK_FALSE(pipe.Take(0, random));
  CHECK_FALSE(pipe.Take(51 * kMs - 1, random));
  CHECK(pipe.NextEventNs() == 51 * kMs);
  CHECK(pipe.Take(51 * kMs, random)->wire_bytes() == 1000);
  CHECK_FALSE(pipe.Take(51 * kMs, random));
  CHECK(pipe.Take(51 * kMs + 500'000, random)->wire_bytes() == 500);
  CHECK(pipe.NextEventNs() == kNever);
}

TEST_CASE("the line's clock does not depend on when the loop looks") {
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.rate_bits_per_second = 8e6});
  for (int i = 0; i < 10; ++i) pipe.Accept(TcpPacket(960, 0), 0, random);
  int arrived = 0;
  while (pipe.Take(10 * kMs, random)) ++arrived;
  CHECK(arrived == 10);
}

TEST_CASE("a large packet does not hold a slow line") {
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.rate_bits_per_second = 16e6});  // 2 wire packets of 1000 bytes a millisecond
  pipe.Accept(TcpPacket(9600, 960), 0, random);
  CHECK(pipe.Take(kMs, random)->wire_packets() == 2);
  CHECK_FALSE(pipe.Take(kMs, random));
  int64_t packets = 2;
  while (std::optional<Packet> packet = pipe.Take(5 * kMs, random))
    packets += packet->wire_packets();
  CHECK(packets == 10);
}

TEST_CASE("the queue drops what does not fit, in wire packets") {
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.rate_bits_per_second = 8e6, .queue_bytes = 3500});
  pipe.Accept(TcpPacket(9600, 960), 0, random);
  CHECK(pipe.counters().offered_packets == 10);
  CHECK(pipe.counters().dropped_queue == 7);
  CHECK(pipe.queued_bytes() == 3000);
}

TEST_CASE("loss is per wire packet and its rate is the configured one") {
  INFO("seed " << kSeed);
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.loss = 0.1, .queue_bytes = int64_t{1} << 30});
  int64_t delivered = 0;
  for (int i = 0; i < 1000; ++i) {
    pipe.Accept(TcpPacket(9600, 960), i, random);
    while (std::optional<Packet> packet = pipe.Take(i, random)) delivered += packet->wire_packets();
  }
  CHECK(delivered + pipe.counters().dropped_loss == 10000);
  CHECK(pipe.counters().dropped_loss == Approx(1000).epsilon(0.1));
}

TEST_CASE("jitter keeps the order and its bounds") {
  INFO("seed " << kSeed);
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.delay_ns = 10 * kMs, .jitter_ns = 5 * kMs});
  for (uint32_t i = 0; i < 100; ++i) pipe.Accept(TcpPacket(100 + i, 0), i * 1000, random);
  CHECK_FALSE(pipe.Take(10 * kMs - 1, random));
  int64_t expected = 140;
  while (std::optional<Packet> packet = pipe.Take(15 * kMs + 100'000, random)) {
    CHECK(packet->wire_bytes() == expected++);
  }
  CHECK(expected == 240);
}

TEST_CASE("darkness swallows what is under way; an MTU hole swallows by size") {
  Random random(kSeed);
  Pipe pipe;
  pipe.Configure({.delay_ns = 10 * kMs});
  pipe.Accept(TcpPacket(100, 0), 0, random);
  pipe.Configure({.delay_ns = 10 * kMs, .dark = true});
  CHECK_FALSE(pipe.Take(20 * kMs, random));
  CHECK(pipe.counters().dropped_dark == 1);
  Pipe hole;
  hole.Configure({.mtu_hole = 1000});
  hole.Accept(TcpPacket(961, 0), 0, random);
  hole.Accept(TcpPacket(5000, 961), 0, random);
  hole.Accept(TcpPacket(960, 0), 0, random);
  CHECK(hole.counters().dropped_mtu == 7);
  CHECK(hole.Take(0, random)->wire_bytes() == 1000);
}

Address Ipv4(const char* text) { return *ParseAddress(text); }

TEST_CASE("a star charges both lines, a mesh one; strangers are not routed") {
  const std::vector<Network::Site> sites = {{"paris", {Ipv4("10.77.0.1")}},
                                            {"tokyo", {Ipv4("10.77.0.2")}},
                                            {"lima", {Ipv4("10.77.0.3")}}};
  for (const Topology topology : {Topology::kMesh, Topology::kStar}) {
    Network network(topology, sites, kSeed);
    REQUIRE(ApplySettings("* delay=10ms", network).ok());
    network.Enter(0, TcpPacket(960, 0), 0);
    network.Enter(1, TcpPacket(960, 0), 0);  // to itself
    const int64_t arrival = topology == Topology::kMesh ? 10 * kMs : 20 * kMs;
    std::vector<int> delivered;
    const auto deliver = [&](int site, const Packet&) { delivered.push_back(site); };
    int64_t now = 0;
    for (; network.NextEventNs() != kNever && now < arrival; now = network.NextEventNs()) {
      network.Advance(now, deliver);
      if (now < arrival) CHECK(delivered.empty());
    }
    network.Advance(arrival, deliver);
    CHECK(delivered == std::vector<int>{1});
    CHECK(network.StatsJson(0).find("\"unrouted_packets\":1") != std::string::npos);
  }
}

}  // namespace
}  // namespace causeway::wan_emulator
