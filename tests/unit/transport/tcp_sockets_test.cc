// Own connections found by the address of the other end, over IPv4, IPv6 and IPv4 mapped into IPv6.
#include "daemon/transport/tcp_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace causeway::transport {
namespace {

struct Connection {
  explicit Connection(int family) {
    listener = socket(AF_INET6, SOCK_STREAM, 0);
    const int both = 0;
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof(any)) == 0);
    REQUIRE(listen(listener, 1) == 0);
    socklen_t length = sizeof(any);
    REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&any), &length) == 0);
    port = ntohs(any.sin6_port);
    client = socket(family, SOCK_STREAM, 0);
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = any.sin6_port;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6 = any;
    v6.sin6_addr = in6addr_loopback;
    REQUIRE((family == AF_INET
                 ? connect(client, reinterpret_cast<sockaddr*>(&v4), sizeof(v4))
                 : connect(client, reinterpret_cast<sockaddr*>(&v6), sizeof(v6))) == 0);
    server = accept(listener, nullptr, nullptr);
    REQUIRE(server >= 0);
    sockaddr_storage local{};
    length = sizeof(local);
    REQUIRE(getsockname(client, reinterpret_cast<sockaddr*>(&local), &length) == 0);
    client_port =
        ntohs(reinterpret_cast<sockaddr_in&>(local).sin_port);  // at the same place in both
  }
  ~Connection() {
    for (int descriptor : {client, server, listener}) close(descriptor);
  }
  int listener = -1, client = -1, server = -1;
  int port = 0, client_port = 0;
};

int Limit(int descriptor) {
  int value = 0;
  socklen_t length = sizeof(value);
  REQUIRE(getsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &length) == 0);
  return value;
}

uint64_t RateLimit(int descriptor) {
  uint64_t value = 0;
  socklen_t length = sizeof(value);
  REQUIRE(getsockopt(descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &value, &length) == 0);
  return value;
}

TEST_CASE("of connections to one address, some can be reset") {
  Connection connection(AF_INET);
  const std::string server = absl::StrCat("ipv4:127.0.0.1:", connection.port);
  REQUIRE(LocalPorts({server}) == std::set<int>{connection.client_port});
  char byte = 'x';
  ResetConnections({server}, {connection.client_port + 1});
  REQUIRE(write(connection.client, &byte, 1) == 1);
  REQUIRE(read(connection.server, &byte, 1) == 1);
  ResetConnections({server}, {connection.client_port});
  CHECK(send(connection.client, &byte, 1, MSG_NOSIGNAL) < 0);
  CHECK(read(connection.server, &byte, 1) < 0);
  CHECK(errno == ECONNRESET);
  CHECK(LocalPorts({server}).empty());
}

TEST_CASE("connections are found by remote address and their unsent bytes limited") {
  for (int family : {AF_INET, AF_INET6}) {
    CAPTURE(family);
    if (family == AF_INET6) {
      const int probe = socket(AF_INET6, SOCK_STREAM, 0);
      if (probe < 0) continue;  // a host without IPv6
      close(probe);
    }
    Connection connection(family);
    const std::string host = family == AF_INET ? "ipv4:127.0.0.1:" : "ipv6:%5B::1%5D:";
    const std::string server = absl::StrCat(host, connection.port);
    const std::string client = absl::StrCat(host, connection.client_port);
    CHECK(LimitUnsent(server, 12345) == 1);
    CHECK(Limit(connection.client) == 12345);
    CHECK(Limit(connection.server) != 12345);
    CHECK(LimitUnsent(client, 23456) == 1);
    CHECK(Limit(connection.server) == 23456);

    const uint64_t unlimited = RateLimit(connection.client);
    LimitRate({server}, 34567);
    CHECK(RateLimit(connection.client) == 34567);
    CHECK(RateLimit(connection.server) == unlimited);
    LimitRate({server, client}, 0);
    CHECK(RateLimit(connection.client) == unlimited);

    // The answer carries the acknowledgement.
    char byte = 'x';
    REQUIRE(write(connection.client, &byte, 1) == 1);
    REQUIRE(read(connection.server, &byte, 1) == 1);
    REQUIRE(write(connection.server, &byte, 1) == 1);
    REQUIRE(read(connection.client, &byte, 1) == 1);
    TcpSnapshot snapshot;
    CHECK(snapshot.Of({server}).connections == 0);
    const absl::Time now = absl::UnixEpoch();
    snapshot.Refresh(now, absl::Seconds(1));
    CHECK(snapshot.Of({server}).connections == 1);
    const TcpTotals first = snapshot.Of({server});
    CHECK(first.segments_sent > 0);
    CHECK(first.bytes_delivered > 0);
    CHECK(first.bytes_in_flight == 0);
    REQUIRE(write(connection.client, &byte, 1) == 1);
    snapshot.Refresh(now + absl::Milliseconds(999), absl::Seconds(1));
    CHECK(snapshot.Of({server}).segments_sent == first.segments_sent);
    snapshot.Refresh(now + absl::Seconds(1), absl::Seconds(1));
    CHECK(snapshot.Of({server}).segments_sent > first.segments_sent);
    CHECK(snapshot.Of({server, client}).connections == 2);
    CHECK(snapshot.Of({"ipv4:127.0.0.1:1"}).connections == 0);
    CHECK(snapshot.Of({}).connections == 0);
  }
}

}  // namespace
}  // namespace causeway::transport
