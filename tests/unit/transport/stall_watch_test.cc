// A line that stands still against lines that are slow, lossy, idle, or whose host slept.
#include "daemon/transport/stall_watch.h"

#include <catch2/catch.hpp>
#include <optional>

namespace causeway::transport {
namespace {

using Verdict = StallWatch::Verdict;

struct Line {
  StallWatch watch;
  StallWatch::Sample sample{1000, 1000, 0, 0, absl::Milliseconds(100)};
  absl::Time now = absl::UnixEpoch();

  // Looks every 100 ms until the verdict, for `span` at most: how long it took.
  std::optional<absl::Duration> Until(Verdict wanted, absl::Duration span) {
    for (absl::Duration past; past <= span; past += Step()) {
      if (watch.Look(now, sample) == wanted) return past;
    }
    return std::nullopt;
  }
  absl::Duration Step(absl::Duration step = absl::Milliseconds(100)) {
    now += step;
    return step;
  }
  void StandStill() {
    watch.Look(now, sample);
    sample.in_flight = sample.backing_off = 5;
  }
};

TEST_CASE("a line on which nothing moves is asked, then found to stand still") {
  Line line;
  line.StandStill();
  const auto quiet = line.Until(Verdict::kQuiet, absl::Seconds(1));
  REQUIRE(quiet.has_value());
  CHECK(*quiet == absl::Milliseconds(500));
  const auto stalled = line.Until(Verdict::kStalled, absl::Seconds(1));
  REQUIRE(stalled.has_value());
  CHECK(*quiet + *stalled == absl::Seconds(1));
}

TEST_CASE("patience follows the round trip and earlier revivals") {
  Line line;
  line.sample.rtt = absl::Milliseconds(600);
  line.StandStill();
  CHECK(line.Until(Verdict::kStalled, absl::Seconds(9)) == absl::Milliseconds(2400));
  line.watch.Moved(line.now);
  line.watch.SetRepeats(2);
  CHECK(line.Until(Verdict::kStalled, absl::Seconds(20)) == absl::Milliseconds(9600));
  line.watch.Moved(line.now);
  line.watch.SetRepeats(50);  // bounded
  CHECK(line.Until(Verdict::kStalled, absl::Seconds(60)) == absl::Milliseconds(38400));
}

TEST_CASE("one connection that does not repeat in vain is no line that stands still") {
  Line line;
  line.StandStill();
  line.sample.backing_off = 4;
  CHECK_FALSE(line.Until(Verdict::kStalled, absl::Seconds(30)));
}

TEST_CASE("a slow line acknowledges something now and again") {
  Line line;
  line.StandStill();
  for (int i = 0; i < 100; ++i) {
    REQUIRE_FALSE(line.Until(Verdict::kStalled, absl::Milliseconds(900)));
    ++(i % 2 == 0 ? line.sample.segments_delivered : line.sample.bytes_received);
  }
}

TEST_CASE(
    "an idle line does not stand still, and time in which this process slept does not count") {
  Line line;
  line.StandStill();
  line.sample.in_flight = line.sample.backing_off = 0;
  CHECK_FALSE(line.Until(Verdict::kQuiet, absl::Seconds(30)));
  line.sample.in_flight = line.sample.backing_off = 5;
  line.Step(absl::Seconds(60));
  CHECK(line.watch.Look(line.now, line.sample) == Verdict::kMoves);
  line.Step();
  CHECK(line.Until(Verdict::kStalled, absl::Seconds(5)) == absl::Milliseconds(900));
}

}  // namespace
}  // namespace causeway::transport
