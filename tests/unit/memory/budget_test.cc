// Budget: what fits, what is refused by name, peaks, reclaiming, and counting from many threads.
#include "daemon/memory/budget.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace causeway::memory {
namespace {

TEST_CASE("accounts share the budget and are refused by name") {
  auto budget = Budget::Create(1000);
  auto small = *budget->Open("small", 100);
  auto large = *budget->Open("large");

  REQUIRE(small->TryReserve(100).ok());
  absl::Status over = small->TryReserve(1);
  CHECK(absl::IsResourceExhausted(over));
  CHECK(std::string(over.message()).find("small") != std::string::npos);

  REQUIRE(large->TryReserve(900).ok());
  over = large->TryReserve(1);
  CHECK(absl::IsResourceExhausted(over));
  CHECK(std::string(over.message()).find("large") != std::string::npos);
  CHECK(absl::IsResourceExhausted(large->TryReserve(Budget::kUnlimited)));

  large->Release(500);
  CHECK(budget->usage().used_bytes == 500);
  CHECK(budget->usage().peak_bytes == 1000);
  CHECK(large->usage().used_bytes == 400);
  CHECK(large->usage().peak_bytes == 900);
  small->Release(100);
  large->Release(400);
  CHECK(budget->usage().used_bytes == 0);
}

TEST_CASE("an account is opened once") {
  auto budget = Budget::Create(1000);
  auto first = *budget->Open("run", 10);
  CHECK(*budget->Open("run", 10) == first);
  CHECK(absl::IsAlreadyExists(budget->Open("run", 11).status()));
  CHECK(budget->accounts().size() == 1);
  first.reset();
  CHECK(budget->accounts().empty());
  CHECK(budget->Open("run", 11).ok());
}

TEST_CASE("a reclaimer makes room before a reservation is refused") {
  auto budget = Budget::Create(100);
  auto cache = *budget->Open("cache");
  auto user = *budget->Open("user");
  REQUIRE(cache->TryReserve(100).ok());
  int calls = 0;
  uint64_t id = budget->AddReclaimer([&] {
    if (calls++ == 0) cache->Release(100);
  });
  CHECK(user->TryReserve(60).ok());
  CHECK(calls == 1);
  CHECK_FALSE(user->TryReserve(60).ok());
  CHECK(calls == 2);
  budget->RemoveReclaimer(id);
  CHECK_FALSE(user->TryReserve(60).ok());
  CHECK(calls == 2);
  user->Release(60);
}

TEST_CASE("a charge gives back what it took, once") {
  auto budget = Budget::Create(100);
  auto account = *budget->Open("a");
  {
    auto charge = Charge::Reserve(account, 70);
    REQUIRE(charge.ok());
    CHECK_FALSE(Charge::Reserve(account, 31).ok());
    Charge moved = std::move(*charge);
    CHECK(moved.bytes() == 70);
    CHECK(account->usage().used_bytes == 70);
  }
  CHECK(account->usage().used_bytes == 0);
}

TEST_CASE("threads never take more than the limit") {
  auto budget = Budget::Create(64);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto account = *budget->Open("thread " + std::to_string(t));
      for (int i = 0; i < 20000; ++i) {
        if (!account->TryReserve(20).ok()) continue;
        if (budget->usage().used_bytes > 64) exceeded = true;
        account->Release(20);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(exceeded);
  CHECK(budget->usage().used_bytes == 0);
  CHECK(budget->usage().peak_bytes <= 64);
}

}  // namespace
}  // namespace causeway::memory
