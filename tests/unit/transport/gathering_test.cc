#include "daemon/transport/gathering.h"

#include <catch2/catch.hpp>

#include "absl/time/time.h"

namespace causeway::transport {
namespace {

constexpr double kLineBytesPerS = 25e6;

Traffic Incoming(absl::Duration rtt_min) { return {kLineBytesPerS, 0, 5, rtt_min}; }

TEST_CASE("bulk that comes in from afar is gathered, for a small part of the round trip") {
  CHECK(GatherTime(Incoming(absl::Milliseconds(100))) == absl::Milliseconds(2));
  CHECK(GatherTime(Incoming(absl::Seconds(1))) == absl::Milliseconds(2));
  CHECK(GatherTime(Incoming(absl::Milliseconds(20))) == absl::Microseconds(400));
}

TEST_CASE("nothing waits for a peer that is near, or whose round trip is not known") {
  CHECK(GatherTime(Incoming(absl::Milliseconds(1))) == absl::ZeroDuration());
  CHECK(GatherTime(Incoming(absl::ZeroDuration())) == absl::ZeroDuration());
}

TEST_CASE("control messages alone, and bulk that goes out, are served as they come") {
  const absl::Duration rtt = absl::Milliseconds(100);
  CHECK(GatherTime({0, 0, 5, rtt}) == absl::ZeroDuration());
  CHECK(GatherTime({1e3, 0, 5, rtt}) == absl::ZeroDuration());
  CHECK(GatherTime({0, kLineBytesPerS, 5, rtt}) == absl::ZeroDuration());
  CHECK(GatherTime({kLineBytesPerS, kLineBytesPerS, 5, rtt}) == absl::ZeroDuration());
}

TEST_CASE("without links there is nobody to wait for") {
  CHECK(GatherTime(Traffic()) == absl::ZeroDuration());
}

}  // namespace
}  // namespace causeway::transport
