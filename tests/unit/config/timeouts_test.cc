// What check-config prints about the links is what the links do.
#include <catch2/catch.hpp>

#include "daemon/config/derived.h"
#include "daemon/transport/link_timing.h"

namespace causeway::config {
namespace {

TEST_CASE("derived time-outs are those of the links") {
  for (const int64_t ms : {200, 500, 2'000, 10'000, 60'000, 600'000}) {
    Config config;
    config.peer_timeout_ms = ms;
    const Timeouts times = DeriveTimeouts(config);
    const transport::LinkTimes link(absl::Milliseconds(ms));
    INFO("peer_timeout " << ms);
    CHECK(absl::Milliseconds(times.peer_timeout_ms) == link.peer_timeout);
    CHECK(absl::Milliseconds(times.heartbeat_ms) == link.heartbeat);
    CHECK(absl::Milliseconds(times.hello_ms) == link.hello_timeout);
  }
}

TEST_CASE("redials follow the printed bounds") {
  const Timeouts times = DeriveTimeouts(Config{});
  const uint64_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  transport::Backoff backoff;
  CHECK(backoff.Next(random) == absl::ZeroDuration());
  CHECK(backoff.Next(random) <= absl::Milliseconds(times.redial_first_ms));
  absl::Duration last;
  for (int i = 0; i < 20; ++i) {
    last = backoff.Next(random);
    CHECK(last <= absl::Milliseconds(times.redial_last_ms));
  }
  CHECK(last >= absl::Milliseconds(times.redial_last_ms) * 0.75);
}

}  // namespace
}  // namespace causeway::config
