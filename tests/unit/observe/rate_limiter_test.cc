#include "daemon/observe/rate_limiter.h"

#include <catch2/catch.hpp>

namespace causeway::observe {
namespace {

TEST_CASE("a burst passes, then the rate") {
  RateLimiter limiter(3, 2.0);
  uint64_t suppressed = 99;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(limiter.Pass("a", 0, &suppressed));
    CHECK(suppressed == 0);
  }
  CHECK_FALSE(limiter.Pass("a", 0, &suppressed));
  CHECK_FALSE(limiter.Pass("a", 499, &suppressed));
  CHECK(limiter.Pass("b", 499, &suppressed));  // another event has its own bucket
  REQUIRE(limiter.Pass("a", 500, &suppressed));
  CHECK(suppressed == 2);
  CHECK(limiter.Unreported().empty());
  CHECK_FALSE(limiter.Pass("a", 500, &suppressed));
  REQUIRE(limiter.Unreported().size() == 1);
  CHECK(limiter.Unreported()[0] == std::pair<std::string, uint64_t>("a", 1));
}

TEST_CASE("an idle event regains its burst, not more") {
  RateLimiter limiter(2, 1.0);
  uint64_t suppressed = 0;
  CHECK(limiter.Pass("a", 0, &suppressed));
  CHECK(limiter.Pass("a", 0, &suppressed));
  int passed = 0;
  for (int i = 0; i < 10; ++i) passed += limiter.Pass("a", 1'000'000, &suppressed) ? 1 : 0;
  CHECK(passed == 2);
}

TEST_CASE("a clock that steps back gives nothing away") {
  RateLimiter limiter(1, 1.0);
  uint64_t suppressed = 0;
  CHECK(limiter.Pass("a", 10'000, &suppressed));
  CHECK_FALSE(limiter.Pass("a", 0, &suppressed));
}

TEST_CASE("the number of buckets is bounded") {
  RateLimiter limiter(1, 1.0);
  uint64_t suppressed = 0;
  int passed = 0;
  for (int i = 0; i < 10'000; ++i) {
    passed += limiter.Pass("event" + std::to_string(i), 0, &suppressed) ? 1 : 0;
  }
  CHECK(passed == static_cast<int>(kLimitedEventsMax) + 1);  // the rest shares one bucket
}

}  // namespace
}  // namespace causeway::observe
