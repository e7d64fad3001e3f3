// Derived times, round-trip time under hostile echoes, and dial back-off.
#include "daemon/transport/link_timing.h"

#include <catch2/catch.hpp>

namespace causeway::transport {
namespace {

absl::Time At(int64_t milliseconds) { return absl::UnixEpoch() + absl::Milliseconds(milliseconds); }

TEST_CASE("every time follows from peer_timeout") {
  for (int64_t ms : {100, 500, 10000, 60000}) {
    CAPTURE(ms);
    LinkTimes times(absl::Milliseconds(ms));
    CHECK(times.heartbeat * 5 == times.peer_timeout);
    CHECK(times.dial_grace < times.peer_timeout);
    CHECK(times.tick < times.heartbeat);
    CHECK(times.hello_timeout >= absl::Seconds(2));
    CHECK(times.hello_timeout <= absl::Seconds(10));
  }
}

TEST_CASE("round-trip time is what passed less what the peer held") {
  RttMeter meter;
  const uint64_t first = meter.Sent(At(0));
  meter.Echo(At(150), first, absl::Milliseconds(50));
  CHECK(meter.smoothed() == absl::Milliseconds(100));
  CHECK(meter.lowest() == absl::Milliseconds(100));
  const uint64_t second = meter.Sent(At(200));
  meter.Echo(At(280), second, absl::ZeroDuration());
  CHECK(meter.smoothed() == absl::Microseconds(97500));
  CHECK(meter.lowest() == absl::Milliseconds(80));
}

TEST_CASE(
    "a path that became longer is seen as longer after a while, a burst is not a longer path") {
  RttMeter meter;
  const int window_ms = static_cast<int>(absl::ToInt64Milliseconds(RttMeter::kLowestOf));
  meter.Sample(At(0), absl::Milliseconds(1));
  int ms = 400;
  for (; ms < window_ms; ms += 400) {
    meter.Sample(At(ms), absl::Milliseconds(250));
    CHECK(meter.lowest() == absl::Milliseconds(1));
  }
  for (; ms < 4 * window_ms; ms += 400) {
    meter.Sample(At(ms), absl::Milliseconds(100));
    if (ms >= 2 * window_ms + 800) CHECK(meter.lowest() == absl::Milliseconds(100));
  }
  meter.Sample(At(10 * window_ms), absl::Milliseconds(200));  // an old lowest counts no more
  meter.Sample(At(11 * window_ms), absl::Milliseconds(200));
  CHECK(meter.lowest() == absl::Milliseconds(200));
}

TEST_CASE("invented, repeated and impossible echoes are ignored") {
  RttMeter meter;
  meter.Echo(At(10), 1, absl::ZeroDuration());
  const uint64_t first = meter.Sent(At(0));
  meter.Echo(At(10), first + 1, absl::ZeroDuration());
  meter.Echo(At(10), 0, absl::ZeroDuration());
  meter.Echo(At(10), first, absl::Milliseconds(11));
  meter.Echo(At(10), first, absl::Milliseconds(-1));
  CHECK(meter.smoothed() == absl::ZeroDuration());
  meter.Echo(At(10), first, absl::Milliseconds(4));
  CHECK(meter.smoothed() == absl::Milliseconds(6));
  meter.Echo(At(90), first, absl::ZeroDuration());
  CHECK(meter.smoothed() == absl::Milliseconds(6));
  for (int i = 0; i < 20; ++i) meter.Sent(At(100 + i));
  meter.Echo(At(200), 2, absl::ZeroDuration());  // its time of sending is forgotten
  CHECK(meter.smoothed() == absl::Milliseconds(6));
}

TEST_CASE("dialling backs off, bounded, and starts over after success") {
  const uint64_t seed = 3;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Backoff backoff;
  CHECK(backoff.Next(random) == absl::ZeroDuration());
  absl::Duration previous = absl::ZeroDuration();
  for (int i = 0; i < 100; ++i) {
    const absl::Duration delay = backoff.Next(random);
    CHECK(delay >= absl::Milliseconds(150));
    CHECK(delay <= absl::Seconds(3));
    CHECK(delay >= previous * 0.7);
    previous = delay;
  }
  CHECK(previous > absl::Seconds(2));
  backoff.Reset();
  CHECK(backoff.Next(random) == absl::ZeroDuration());
}

}  // namespace
}  // namespace causeway::transport
