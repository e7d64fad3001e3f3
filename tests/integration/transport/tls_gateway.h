// Gateways with real certificates of an authority made for the test.
#ifndef CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TLS_GATEWAY_H_
#define CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TLS_GATEWAY_H_

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "security/credentials.h"
#include "security/pki.h"
#include "security/tls_policy.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {

inline int64_t NowSeconds() { return absl::ToUnixSeconds(absl::Now()); }

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

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_TLS_GATEWAY_H_
