// Links with the real certificates: three clusters in a mesh, and callers that must not get in.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "security/credentials.h"
#include "security/pki.h"
#include "security/tls_policy.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

int64_t NowSeconds() { return absl::ToUnixSeconds(absl::Now()); }

// An authority with a folder for what it issues.
class Authority {
 public:
  Authority() {
    static const absl::Status tls13 = security::RequireTls13();  // once a process, before any TLS
    INFO(tls13);
    REQUIRE(tls13.ok());
    std::string pattern = (std::filesystem::temp_directory_path() / "causeway-tls-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    auto made = security::MakeAuthority("example.org", security::ValidityFrom(NowSeconds(), 30));
    REQUIRE(made.ok());
    authority_ = *made;
  }
  ~Authority() { std::filesystem::remove_all(folder_); }

  std::shared_ptr<security::Credentials> Issue(const std::string& cluster,
                                               std::vector<std::string> peers) {
    auto leaf = security::IssueLeaf(
        authority_, {{"example.org", cluster}, {}, security::ValidityFrom(NowSeconds(), 10)});
    INFO(leaf.status());
    REQUIRE(leaf.ok());
    security::Credentials::Options options;
    options.cluster = cluster;
    options.files = {Write(cluster + ".pem", leaf->certificate_pem),
                     Write(cluster + ".key", leaf->key_pem),
                     Write("ca.pem", authority_.certificate_pem)};
    options.peers = std::move(peers);
    options.now_s = NowSeconds;
    auto loaded = security::Credentials::Load(std::move(options));
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    return std::move(*loaded);
  }

 private:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    return path;
  }

  std::filesystem::path folder_;
  security::KeyAndCertificate authority_;
};

// Which peers it dials is added before Start.
struct TlsGateway {
  TlsGateway(Authority& authority, const std::string& cluster,
             const std::vector<std::string>& peers)
      : credentials(authority.Issue(cluster, peers)), gateway(cluster, "") {
    gateway.config.server_credentials = credentials->server();
    gateway.config.identity = [held = credentials](
                                  const grpc::AuthContext& auth,
                                  const std::string& remote) -> absl::StatusOr<std::string> {
      auto peer = held->Authenticate(auth, remote);
      if (!peer.ok()) return peer.status();
      return peer->cluster;
    };
  }
  void AddPeer(const std::string& cluster, const std::string& address) {
    auto channel = credentials->channel(cluster);
    REQUIRE(channel.ok());
    gateway.config.peers.push_back({cluster, address, *channel});
  }

  std::shared_ptr<security::Credentials> credentials;
  Gateway gateway;
};

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
