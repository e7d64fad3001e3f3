// What a rate rests on: only times in which chunks waited for the line count.
#include "daemon/transport/rates.h"

#include <catch2/catch.hpp>

namespace causeway::transport {
namespace {

constexpr absl::Duration kRtt = absl::Milliseconds(100);
constexpr absl::Duration kStep = absl::Milliseconds(10);

// A line of `rate` bytes/s that is full for `span`, acknowledged a round trip later.
absl::Time Fill(RateMeter& meter, absl::Time now, double rate, absl::Duration span) {
  meter.SetBusy(now, true);
  const absl::Time end = now + span;
  const absl::Time first = now + kRtt;
  for (; now < end; now += kStep) {
    if (now >= first) meter.Moved(now, static_cast<uint64_t>(rate * 0.01), kRtt);
  }
  meter.SetBusy(now, false);
  return now;
}

TEST_CASE("a full line's rate is measured, however long it is idle in between") {
  RateMeter meter;
  absl::Time now = absl::UnixEpoch();
  CHECK(meter.Rate(now).bytes_per_s == 0);
  CHECK(meter.Rate(now).confidence == 0);
  for (int burst = 0; burst < 5; ++burst) {
    now = Fill(meter, now, 25e6, absl::Milliseconds(600));
    CHECK(meter.Rate(now).bytes_per_s == Approx(25e6).epsilon(0.02));
    // What trickles between bursts says nothing about the line.
    for (int i = 0; i < 100; ++i, now += kStep) meter.Moved(now, 1000, kRtt);
  }
  CHECK(meter.Rate(now).confidence == Approx(1));
  CHECK(meter.Rate(now).age > absl::Milliseconds(900));
  CHECK(meter.Rate(now).age < absl::Milliseconds(1200));
}

TEST_CASE("a line that became slower or faster is known within two busy seconds") {
  RateMeter meter;
  absl::Time now = Fill(meter, absl::UnixEpoch(), 125e6, absl::Seconds(3));
  now = Fill(meter, now, 6.25e6, absl::Seconds(4));
  CHECK(meter.Rate(now).bytes_per_s < 1.5 * 6.25e6);
  now = Fill(meter, now, 125e6, absl::Seconds(3));
  CHECK(meter.Rate(now).bytes_per_s > 0.85 * 125e6);
}

TEST_CASE(
    "a burst within a round trip gives no rate; TCP's own estimate holds until there is one") {
  RateMeter meter;
  absl::Time now = Fill(meter, absl::UnixEpoch(), 25e6, absl::Milliseconds(120));
  CHECK(meter.Rate(now).bytes_per_s == 0);
  meter.Hint(now, 20e6);
  CHECK(meter.Rate(now).bytes_per_s == 20e6);
  CHECK(meter.Rate(now).confidence < 0.25);
  now = Fill(meter, now, 25e6, absl::Milliseconds(600));
  meter.Hint(now, 1e6);
  CHECK(meter.Rate(now).bytes_per_s == Approx(25e6).epsilon(0.02));
  CHECK(meter.Rate(now).confidence > 0.25);
}

TEST_CASE("arrivals without a gap are a busy time; a gap ends it") {
  RateMeter meter;
  absl::Time now = absl::UnixEpoch();
  for (int burst = 0; burst < 4; ++burst) {
    for (int i = 0; i < 60; ++i, now += kStep) meter.Arrived(now, 250'000, kRtt);
    now += absl::Seconds(5);
  }
  CHECK(meter.Rate(now).bytes_per_s == Approx(25e6).epsilon(0.02));
  CHECK(meter.Rate(now).confidence > 0.9);
}

}  // namespace
}  // namespace causeway::transport
