// Links with the real certificates: three clusters in a mesh, and callers that must not get in.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>

#include "tests/integration/transport/recorder.h"
#include "tests/integration/transport/tls_gateway.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

TEST_CASE("three clusters link with their certificates and exchange chunks all to all") {
  Authority authority;
  const std::vector<std::string> names = {"oslo", "paris", "tokyo"};
  std::map<std::string, std::unique_ptr<TlsGateway>> all;
  for (const std::string& name : names) {
    std::vector<std::string> others;
    for (const std::string& other : names) {
      if (other != name) others.push_back(other);
    }
    all[name] = std::make_unique<TlsGateway>(authority, name, others);
    Gateway& gateway = all[name]->gateway;
    gateway.recorder.on_chunk = [&gateway](const std::string& peer, const ChunkHeader& header,
                                           memory::Buffer payload) {
      const size_t bytes = payload.size();
      payload.Reset();
      gateway.transport().ReturnCredit(peer, header.run, bytes);
    };
  }
  // Each later one dials those that are started.
  for (const std::string& name : names) {
    for (const std::string& other : names) {
      if (other != name)
        all[name]->AddPeer(other, other < name ? all[other]->gateway.address() : "");
    }
    all[name]->gateway.Start();
  }
  constexpr uint32_t kChunks = 60;
  for (const std::string& name : names) {
    for (const std::string& other : names) {
      if (other == name) continue;
      REQUIRE(all[name]->gateway.WaitUp(other));
      REQUIRE(all[name]->gateway.transport().SetWindow(other, "demo", 4 << 20).ok());
    }
  }
  for (const std::string& name : names) {
    for (uint32_t i = 0; i < kChunks; ++i) {
      for (const std::string& other : names) {
        if (other != name) REQUIRE(all[name]->gateway.SendChunk(other, "demo", 1, i, 200000).ok());
      }
    }
  }
  for (const std::string& name : names) {
    Recorder& recorder = all[name]->gateway.recorder;
    REQUIRE(recorder.Wait([](const Notes& n) {
      return n.chunks.size() == 2 * kChunks && n.done.size() == 2 * kChunks;
    }));
    for (const ChunkNote& note : recorder.notes().chunks) CHECK(note.intact);
    CHECK(recorder.notes().refused.empty());
  }
}

TEST_CASE("a stranger's certificate, or another cluster's, gets no link") {
  Authority authority;
  TlsGateway tokyo(authority, "tokyo", {"paris"});
  tokyo.AddPeer("paris", "");
  tokyo.gateway.Start();

  SECTION("another authority") {
    Authority other;
    TlsGateway paris(other, "paris", {"tokyo"});
    paris.AddPeer("tokyo", tokyo.gateway.address());
    paris.gateway.Start();
    REQUIRE(paris.gateway.WaitStatus("tokyo",
                                     [](const PeerStatus& s) { return !s.last_error.empty(); }));
    CHECK(paris.gateway.recorder.notes().up.empty());
  }
  SECTION("a cluster that is not configured") {
    TlsGateway rome(authority, "rome", {"tokyo"});
    rome.AddPeer("tokyo", tokyo.gateway.address());
    rome.gateway.Start();
    REQUIRE(rome.gateway.WaitStatus("tokyo",
                                    [](const PeerStatus& s) { return !s.last_error.empty(); }));
    CHECK(rome.gateway.recorder.notes().up.empty());
  }
  SECTION("another cluster than the one dialled") {
    TlsGateway paris(authority, "paris", {"tokyo", "oslo"});
    paris.AddPeer("oslo", tokyo.gateway.address());
    paris.gateway.Start();
    REQUIRE(paris.gateway.WaitStatus("oslo",
                                     [](const PeerStatus& s) { return !s.last_error.empty(); }));
    CHECK(paris.gateway.recorder.notes().up.empty());
  }
  SECTION("a caller in clear") {
    Gateway clear("paris", "tokyo");
    clear.AddPeer("tokyo", tokyo.gateway.address());
    clear.Start();
    REQUIRE(clear.WaitStatus("tokyo", [](const PeerStatus& s) { return !s.last_error.empty(); }));
    CHECK(clear.recorder.notes().up.empty());
  }
  CHECK(tokyo.gateway.recorder.notes().up.empty());
  // The right one is still welcome.
  TlsGateway paris(authority, "paris", {"tokyo"});
  paris.AddPeer("tokyo", tokyo.gateway.address());
  paris.gateway.Start();
  CHECK(paris.gateway.WaitUp("tokyo"));
}

}  // namespace
}  // namespace causeway::transport
