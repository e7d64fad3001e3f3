// PendingConnections against real loopback sockets of this process.
#include "security/pending_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace causeway::security {
namespace {

class Listener {
 public:
  explicit Listener(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage address = {};
    address.ss_family = static_cast<sa_family_t>(family);
    size_ = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
    }
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size_) == 0);
    REQUIRE(listen(fd_, 16) == 0);
    socklen_t size = sizeof address_;
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size) == 0);
  }
  ~Listener() {
    close(fd_);
    for (int fd : open_) close(fd);
  }
  uint16_t port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(&address_)->sin_port); }

  // Connects and accepts; the connecting end's port.
  uint16_t Connect() {
    const int client = socket(address_.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(connect(client, reinterpret_cast<const sockaddr*>(&address_), size_) == 0);
    const int accepted = accept(fd_, nullptr, nullptr);
    REQUIRE(accepted >= 0);
    open_.insert(open_.end(), {client, accepted});
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    REQUIRE(getsockname(client, reinterpret_cast<sockaddr*>(&own), &size) == 0);
    return ntohs(reinterpret_cast<sockaddr_in*>(&own)->sin_port);
  }

 private:
  int fd_;
  socklen_t size_ = 0;
  sockaddr_storage address_ = {};
  std::vector<int> open_;
};

TEST_CASE("a pending connection is named, an authenticated one is not") {
  Listener listener(AF_INET);
  PendingConnections pending;
  CHECK(pending.Describe(1) == "unknown");  // no port yet
  pending.SetPort(listener.port());
  CHECK(pending.Describe(1) == "unknown");
  const std::string first = "127.0.0.1:" + std::to_string(listener.Connect());
  CHECK(pending.Describe(1) == first);
  pending.Authenticated("ipv4:" + first);
  CHECK(pending.Describe(1) == "unknown");
  const std::string second = "127.0.0.1:" + std::to_string(listener.Connect());
  CHECK(pending.Describe(1) == second);
  const std::string third = "127.0.0.1:" + std::to_string(listener.Connect());
  CHECK(pending.Describe(1).substr(0, 7) == "one of ");
  CHECK(pending.Describe(1).find(third) != std::string::npos);
}

TEST_CASE("IPv6 peers are named as gRPC names them") {
  Listener listener(AF_INET6);
  PendingConnections pending;
  pending.SetPort(listener.port());
  const std::string port = std::to_string(listener.Connect());
  CHECK(pending.Describe(1) == "[::1]:" + port);
  pending.Authenticated("ipv6:%5B::1%5D:" + port);
  CHECK(pending.Describe(1) == "unknown");
}

TEST_CASE("answers and scans are bounded") {
  Listener listener(AF_INET);
  PendingConnections pending;
  pending.SetPort(listener.port());
  for (size_t i = 0; i < PendingConnections::kNamedMax + 3; ++i) listener.Connect();
  const std::string text = pending.Describe(1);
  CHECK(text.find(" and 3 more") != std::string::npos);
  for (int i = 1; i < PendingConnections::kScansPerSecondMax; ++i)
    CHECK(pending.Describe(1) == text);
  CHECK(pending.Describe(1) == "unknown");
  CHECK(pending.Describe(2) == text);
}

}  // namespace
}  // namespace causeway::security
