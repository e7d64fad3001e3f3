// Credits at the receiver: what is held and what may still come never exceed the window.
#include "daemon/transport/receive_credits.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>

#include "daemon/transport/limits.h"
#include "daemon/transport/number_window.h"

namespace causeway::transport {
namespace {

using Verdict = ReceiveCredits::Verdict;

constexpr uint64_t kWindow = kWindowBytesMin;
const absl::Time kNow = absl::UnixEpoch();

uint64_t OnlyGrant(ReceiveCredits& credits, bool all = true) {
  auto grants = credits.TakeGrants(all, kNow);
  REQUIRE(grants.size() == 1);
  return grants[0].total_bytes;
}

TEST_CASE("a window is granted, used and granted again as chunks are consumed") {
  ReceiveCredits credits;
  credits.BeginLink();
  credits.SetWindow("a", kWindow);
  CHECK(OnlyGrant(credits) == kWindow);
  CHECK(credits.TakeGrants(true, kNow).empty());
  REQUIRE(*credits.Receive("a", kWindow - 5000) == Verdict::kDeliver);
  CHECK(credits.TakeGrants(true, kNow).empty());
  credits.Return("a", kWindow - 5000);
  CHECK(OnlyGrant(credits) == 2 * kWindow - 5000);
  REQUIRE(credits.Receive("a", 2000).ok());
  credits.Return("a", 2000);
  CHECK(credits.TakeGrants(false, kNow).empty());  // not worth a frame yet
  CHECK(OnlyGrant(credits, true) == 2 * kWindow - 3000);
}

TEST_CASE("more than the credit, or a run without any, ends the link") {
  ReceiveCredits credits;
  credits.BeginLink();
  credits.SetWindow("a", kWindow);
  auto early = credits.Receive("a", 1);
  CHECK(absl::IsFailedPrecondition(early.status()));
  OnlyGrant(credits);
  auto unknown = credits.Receive("b", 1);
  CHECK(absl::IsFailedPrecondition(unknown.status()));
  CHECK(std::string(unknown.status().message()).find("run b") != std::string::npos);
  REQUIRE(credits.Receive("a", kWindow).ok());
  auto over = credits.Receive("a", 0);
  CHECK(absl::IsFailedPrecondition(over.status()));
  CHECK(std::string(over.status().message()).find("exceeds its credit") != std::string::npos);
}

TEST_CASE("a closed run's chunks in flight are unwanted, not a fault") {
  ReceiveCredits credits;
  credits.BeginLink();
  credits.SetWindow("a", kWindow);
  OnlyGrant(credits);
  REQUIRE(*credits.Receive("a", 4096) == Verdict::kDeliver);
  credits.SetWindow("a", 0);
  CHECK(*credits.Receive("a", 4096) == Verdict::kUnwanted);
  CHECK(credits.TakeGrants(true, kNow).empty());
  credits.Return("a", 4096);
  // Opened again on the same link: only what is not in flight already.
  credits.SetWindow("a", kWindow);
  CHECK(OnlyGrant(credits) == kWindow + 8192);
}

TEST_CASE("a new link grants only what is not still held from the last one") {
  ReceiveCredits credits;
  credits.BeginLink();
  credits.SetWindow("a", kWindow);
  OnlyGrant(credits);
  REQUIRE(credits.Receive("a", 500000).ok());
  credits.BeginLink();
  CHECK(OnlyGrant(credits) == kWindow - 500000);
  credits.Return("a", 500000);
  CHECK(OnlyGrant(credits) == kWindow);
}

TEST_CASE("held plus in flight never exceeds the window, whatever happens") {
  const uint64_t seed = 99;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  ReceiveCredits credits;
  credits.BeginLink();
  credits.SetWindow("a", kWindow);
  uint64_t granted = 0, received = 0, held = 0;
  std::deque<uint64_t> chunks;
  for (int i = 0; i < 100000; ++i) {
    switch (random() % 4) {
      case 0:
        for (const auto& grant : credits.TakeGrants(random() % 2 == 0, kNow))
          granted = grant.total_bytes;
        break;
      case 1: {
        const uint64_t bytes = random() % 300000;
        if (received + ChunkCredit(bytes) > granted) break;
        REQUIRE(credits.Receive("a", bytes).ok());
        received += ChunkCredit(bytes);
        held += ChunkCredit(bytes);
        chunks.push_back(bytes);
        break;
      }
      case 2:
        if (chunks.empty()) break;
        credits.Return("a", chunks.front());
        held -= ChunkCredit(chunks.front());
        chunks.pop_front();
        break;
      default:
        if (random() % 1000 != 0) break;
        credits.BeginLink();
        granted = received = 0;
    }
    REQUIRE(held + (granted - received) <= kWindow);
  }
}

TEST_CASE("numbers settle once, in nearly any order") {
  NumberWindow window(8);
  using Mark = NumberWindow::Mark;
  CHECK(window.Settle(0) == Mark::kAgain);
  CHECK(window.Settle(9) == Mark::kTooFar);
  CHECK(window.Settle(8) == Mark::kNew);
  CHECK(window.Settle(8) == Mark::kAgain);
  for (uint64_t n : {3, 1, 2}) CHECK(window.Settle(n) == Mark::kNew);
  CHECK(window.low() == 4);
  CHECK(window.Peek(11) == Mark::kNew);
  CHECK(window.Settle(11) == Mark::kNew);
  CHECK(window.Settle(12) == Mark::kTooFar);
  for (uint64_t n : {4, 5, 6, 7}) CHECK(window.Settle(n) == Mark::kNew);
  CHECK(window.low() == 9);
}

TEST_CASE("under a rate limit credit grows no faster, and idle time saves up one burst") {
  const RateLimit limit(106'000'000, absl::Milliseconds(500));  // 12.5 MB/s of payload
  ReceiveCredits credits(limit);
  credits.BeginLink();
  credits.SetWindow("a", uint64_t{1} << 30);
  credits.SetWindow("b", uint64_t{1} << 30);
  credits.SetWindow("small", kWindow);
  absl::Time now = kNow + absl::Hours(1);
  std::map<std::string, uint64_t> granted, received;
  const auto take = [&] {
    for (const auto& grant : credits.TakeGrants(true, now)) granted[grant.run] = grant.total_bytes;
  };
  take();
  uint64_t total = granted["a"] + granted["b"] + granted["small"];
  CHECK(total <= 6'250'000);
  CHECK(total > 6'000'000);
  // Three runs that use what they get and give it back at once, for ten seconds.
  for (int i = 0; i < 200; ++i) {
    now += absl::Milliseconds(50);
    for (auto& [run, bytes] : granted) {
      while (received[run] + 100'000 <= bytes) {
        REQUIRE(*credits.Receive(run, 100'000) == Verdict::kDeliver);
        credits.Return(run, 100'000);
        received[run] += 100'000;
      }
    }
    take();
  }
  total = received["a"] + received["b"] + received["small"];
  CHECK(static_cast<double>(total) == Approx(12.5e6 * 10 + 6e6).epsilon(0.05));
  for (const auto& [run, bytes] : received) {
    CAPTURE(run, bytes);
    CHECK(static_cast<double>(bytes) > 0.9 * static_cast<double>(total) / 3);
  }
  // Idle for long: what the peer may then send at once is still one burst of each run.
  now += absl::Hours(1);
  take();
  for (const auto& [run, bytes] : granted) CHECK(bytes - received[run] <= 6'250'000);
}

}  // namespace
}  // namespace causeway::transport
