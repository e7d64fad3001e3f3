// At most so many rounds or so long behind, and patient after a failure.
#include "daemon/checkpoint/schedule.h"

#include <catch2/catch.hpp>

namespace causeway::testing {
namespace {

using checkpoint::kRetryUs;
using checkpoint::Limits;
using checkpoint::Schedule;

TEST_CASE("due by rounds or by time, whichever is first") {
  Schedule schedule(Limits{3, 1000});
  CHECK_FALSE(schedule.Due(0));
  schedule.OnChange(10);
  CHECK(schedule.Due(20) == 1010);
  schedule.OnChange(20);
  schedule.OnChange(30);
  CHECK(schedule.Due(31) == 31);
  schedule.OnBegun();
  CHECK_FALSE(schedule.Due(31));
  schedule.OnChange(40);
  CHECK(schedule.Due(41) == 1040);
}

TEST_CASE("without bounds nothing is ever due") {
  Schedule schedule(Limits{});
  schedule.OnChange(1);
  CHECK(schedule.dirty());
  CHECK_FALSE(schedule.Due(1'000'000'000));
}

TEST_CASE("a failure is tried again, after a pause") {
  Schedule schedule(Limits{1, 0});
  schedule.OnChange(10);
  REQUIRE(schedule.Due(10) == 10);
  schedule.OnBegun();
  schedule.OnFailed(20);
  CHECK(schedule.Due(30) == 20 + kRetryUs);
}

}  // namespace
}  // namespace causeway::testing
