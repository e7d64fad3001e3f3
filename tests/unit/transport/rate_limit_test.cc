// The token bucket.
#include "daemon/transport/rate_limit.h"

#include <catch2/catch.hpp>

namespace causeway::transport {
namespace {

TEST_CASE("no limit is no limit") {
  RateLimit limit(0, absl::Seconds(1));
  CHECK_FALSE(limit.limited());
}

TEST_CASE("over time no more goes than the rate allows, whatever the sizes") {
  RateLimit limit(212'000'000, absl::Milliseconds(10));  // 25 MB/s of payload
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  const absl::Time begin = now;
  double sent = 0;
  for (uint64_t bytes = 1; now - begin < absl::Seconds(10); bytes = bytes * 7919 % 1'000'003) {
    if (limit.Tokens(now) <= 0) {
      const absl::Time ready = limit.ReadyAt(now);
      REQUIRE(ready > now);
      now = ready;
      CHECK(limit.Tokens(now) > 0);
    }
    limit.Take(bytes);
    sent += static_cast<double>(bytes);
  }
  CHECK(sent == Approx(250e6).epsilon(0.01));
  // A pause saves up one burst, not the pause.
  now += absl::Hours(1);
  CHECK(limit.Tokens(now) == Approx(250'000));
}

}  // namespace
}  // namespace causeway::transport
