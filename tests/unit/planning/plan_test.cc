// Who owns which chunk: shares are met, early chunks are spread, nobody is forgotten.
#include "daemon/planning/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace causeway::planning {
namespace {

Plan Owners(std::map<engine::ClusterId, uint32_t> parts) {
  Plan plan;
  plan.route = Route::kOwner;
  plan.parts = std::move(parts);
  return plan;
}

std::map<engine::ClusterId, uint32_t> RandomParts(std::mt19937_64* random, int clusters) {
  std::map<engine::ClusterId, uint32_t> parts;
  uint32_t left = kShareParts;
  for (int c = 0; c + 1 < clusters; ++c) {
    const auto part = static_cast<uint32_t>((*random)() % (left + 1));
    if (part > 0) parts[static_cast<engine::ClusterId>(c)] = part;
    left -= part;
  }
  if (left > 0) parts[static_cast<engine::ClusterId>(clusters - 1)] = left;
  return parts;
}

std::map<engine::ClusterId, uint32_t> Count(const std::vector<engine::ClusterId>& owners) {
  std::map<engine::ClusterId, uint32_t> counts;
  for (engine::ClusterId owner : owners) ++counts[owner];
  return counts;
}

TEST_CASE("a direct plan has no owners") { CHECK(OwnersOf(Plan{}, 100).empty()); }

TEST_CASE("a plan without chunks has no owners") {
  CHECK(OwnersOf(Owners({{0, kShareParts}}), 0).empty());
}

TEST_CASE("owners get their shares to within one chunk, whatever the shares") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const int clusters = 1 + static_cast<int>(random() % 64);
    const Plan plan = Owners(RandomParts(&random, clusters));
    const auto chunks = static_cast<uint32_t>(random() % 500);
    const std::vector<engine::ClusterId> owners = OwnersOf(plan, chunks);
    REQUIRE(owners.size() == chunks);
    std::map<engine::ClusterId, uint32_t> counts = Count(owners);
    for (const auto& [cluster, part] : plan.parts) {
      const double exact = static_cast<double>(chunks) * part / kShareParts;
      INFO("cluster " << int{cluster} << " of " << clusters << ", chunks " << chunks);
      REQUIRE(counts[cluster] > exact - 1);
      REQUIRE(counts[cluster] < exact + 1);
    }
    for (const auto& [cluster, count] : counts) REQUIRE((count == 0 || plan.parts.count(cluster)));
  }
}

TEST_CASE("equal shares interleave from the first chunk on") {
  const Plan plan = Owners({{0, 1366}, {1, 1365}, {2, 1365}});
  CHECK(OwnersOf(plan, 6) == std::vector<engine::ClusterId>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("every prefix of the chunks is spread by the shares") {
  const Plan plan = Owners({{0, 2048}, {1, 1024}, {2, 1024}});
  const std::vector<engine::ClusterId> owners = OwnersOf(plan, 64);
  for (size_t prefix = 1; prefix <= owners.size(); ++prefix) {
    const auto mine = std::count(owners.begin(), owners.begin() + static_cast<int>(prefix), 0);
    REQUIRE(std::abs(static_cast<double>(mine) - static_cast<double>(prefix) / 2) <= 1.0);
  }
}

TEST_CASE("fewer chunks than owners go to the largest shares, ties to the lower name") {
  CHECK(OwnersOf(Owners({{0, 96}, {1, 2000}, {2, 2000}}), 1) == std::vector<engine::ClusterId>{1});
  CHECK(Count(OwnersOf(Owners({{0, 96}, {1, 2000}, {2, 2000}}), 2)) ==
        std::map<engine::ClusterId, uint32_t>{{1, 1}, {2, 1}});
}

TEST_CASE("a contribution's codec is its cluster's own where the plan names one") {
  Plan plan;
  plan.codec = *compression::CodecSpec::Parse("int8:ef");
  plan.codecs[2] = *compression::CodecSpec::Parse("int4:ef");
  CHECK(plan.ContributionCodec(0) == plan.codec);
  CHECK(plan.ContributionCodec(2).kind == compression::CodecKind::kInt4);
}

TEST_CASE("the book keeps the configured plan and the newest ones") {
  Plan configured;
  configured.reason = "as configured";
  PlanBook book(configured);
  REQUIRE(book.Find(0) != nullptr);
  CHECK(book.Find(7) == nullptr);
  for (engine::PlanId id = 1; id <= 100; ++id) {
    Plan plan;
    plan.reason = std::to_string(id);
    book.Add(id, plan, std::nullopt);
  }
  CHECK(book.Find(0)->reason == "as configured");
  CHECK(book.Find(100)->reason == "100");
  CHECK(book.Find(92) != nullptr);
  CHECK(book.Find(1) == nullptr);
}

}  // namespace
}  // namespace causeway::planning
