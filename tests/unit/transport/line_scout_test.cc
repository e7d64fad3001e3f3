// A host that answers, one that refuses, and names that are no internet addresses.
#include "daemon/transport/line_scout.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace causeway::transport {
namespace {

struct Port {
  Port() : descriptor(socket(AF_INET6, SOCK_STREAM, 0)) {
    const int both = 0;
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&any), sizeof(any)) == 0);
    socklen_t length = sizeof(any);
    REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&any), &length) == 0);
    number = ntohs(any.sin6_port);
  }
  ~Port() { close(descriptor); }
  void Listen() { REQUIRE(listen(descriptor, 64) == 0); }

  int descriptor;
  int number = 0;
};

// Looks until there is an answer, which on loopback only a starved machine delays.
bool Answers(LineScout& scout, absl::Time now) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    if (scout.Answered(now)) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

TEST_CASE("a host that listens answers, over IPv4 and IPv6") {
  Port port;
  port.Listen();
  for (const char* host : {"ipv4:127.0.0.1:", "ipv6:%5B::1%5D:"}) {
    const std::unique_ptr<LineScout> scout = LineScout::To(absl::StrCat(host, port.number));
    REQUIRE(scout != nullptr);
    CHECK_FALSE(scout->Answered(absl::UnixEpoch()));  // asks
    CHECK(Answers(*scout, absl::UnixEpoch()));
  }
}

TEST_CASE("a host that refuses does not answer, however often it is asked, until it listens") {
  Port port;
  const std::unique_ptr<LineScout> scout =
      LineScout::To(absl::StrCat("ipv4:127.0.0.1:", port.number));
  REQUIRE(scout != nullptr);
  absl::Time now = absl::UnixEpoch();
  for (size_t i = 0; i < 3 * LineScout::kQuestionsMax; ++i, now += LineScout::kPace) {
    CHECK_FALSE(scout->Answered(now));
  }
  port.Listen();
  CHECK(Answers(*scout, now));
}

TEST_CASE("questions keep their pace") {
  Port port;
  port.Listen();
  const std::unique_ptr<LineScout> scout =
      LineScout::To(absl::StrCat("ipv4:127.0.0.1:", port.number));
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 5; ++i) scout->Answered(now);
  pollfd waiting{port.descriptor, POLLIN, 0};
  REQUIRE(poll(&waiting, 1, 60'000) == 1);
  close(accept(port.descriptor, nullptr, nullptr));
  CHECK(poll(&waiting, 1, 0) == 0);  // one question was asked
}

TEST_CASE("what is no internet address is not asked") {
  for (const char* remote : {"", "unix-abstract:causeway", "ipv4:127.0.0.1", "ipv4:7443", "ipv4::7",
                             "ipv4:127.0.0.1:0", "ipv4:127.0.0.1:70000", "ipv6:%5Bnone%5D:7443",
                             "ipv6:7443", "ipv6:%5Bfe80::1%25eth0%5D:7443"}) {
    INFO(remote);
    CHECK(LineScout::To(remote) == nullptr);
  }
}

}  // namespace
}  // namespace causeway::transport
