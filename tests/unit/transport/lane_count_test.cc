// How many lanes a link wants.
#include "daemon/transport/lane_count.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace causeway::transport {
namespace {

constexpr absl::Duration kRtt = absl::Milliseconds(100);
constexpr uint64_t kLarge = 64 << 20;
constexpr uint64_t kDefault = 4 << 20;

DirectionRate Measured(double bytes_per_s) { return {bytes_per_s, absl::ZeroDuration(), 1}; }

TEST_CASE("a fixed count stays, within the peer's share") {
  LaneCount fixed(5, 32, kDefault);
  CHECK(fixed.wanted() == 5);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(fixed.Look(Measured(1e9), kRtt));
  CHECK(fixed.wanted() == 5);
  CHECK(fixed.reason() == "5: as configured");
  CHECK(LaneCount(5, 2, kDefault).wanted() == 2);
  CHECK(LaneCount(5, 2, kDefault).reason() == "2: this peer's share of all lanes");
}

TEST_CASE("by itself it begins with few, more where the host's send buffers are small") {
  CHECK(LaneCount(0, 32, kLarge).wanted() == 4);
  CHECK(LaneCount(0, 32, kDefault).wanted() == 8);
  CHECK(LaneCount(0, 2, kDefault).wanted() == 2);
}

TEST_CASE("it grows with rate and delay, on the second look, and never shrinks") {
  LaneCount lanes(0, 32, kDefault);
  CHECK_FALSE(lanes.Look(Measured(300e6), kRtt));
  CHECK(lanes.Look(Measured(300e6), kRtt));
  CHECK(lanes.wanted() == 19);  // 30 MB in flight and a quarter more, 2.1 MB a connection, one more
  CHECK(lanes.reason() == "19: 300.0 MB/s over 100 ms, 2.1 MB a connection");
  for (int i = 0; i < 5; ++i) CHECK_FALSE(lanes.Look(Measured(1e6), kRtt));
  CHECK(lanes.wanted() == 19);
  // One look alone is a spike.
  CHECK_FALSE(lanes.Look(Measured(5e9), kRtt));
  CHECK_FALSE(lanes.Look(Measured(1e6), kRtt));
  CHECK_FALSE(lanes.Look(Measured(5e9), kRtt));
  CHECK(lanes.Look(Measured(5e9), kRtt));
  CHECK(lanes.wanted() == 32);

  LaneCount roomy(0, 32, kLarge);
  for (int i = 0; i < 3; ++i) roomy.Look(Measured(119e6), kRtt);
  CHECK(roomy.wanted() == 4);  // a gigabit at 100 ms needs one
}

TEST_CASE("what rests on little changes nothing") {
  LaneCount lanes(0, 32, kDefault);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(lanes.Look({5e9, absl::ZeroDuration(), 0.25}, kRtt));
    CHECK_FALSE(lanes.Look(Measured(5e9), absl::ZeroDuration()));
    CHECK_FALSE(lanes.Look({}, kRtt));
  }
}

TEST_CASE("the host's largest send buffer is the third number; unknown is the kernel's default") {
  const std::string path = absl::StrCat("/tmp/causeway-tcp-wmem-", getpid());
  std::ofstream(path) << "4096\t16384\t67108864\n";
  CHECK(SendBufferBytesMax(path) == kLarge);
  std::ofstream(path) << "4096 x\n";
  CHECK(SendBufferBytesMax(path) == kDefault);
  std::remove(path.c_str());
  CHECK(SendBufferBytesMax(path) == kDefault);
}

}  // namespace
}  // namespace causeway::transport
