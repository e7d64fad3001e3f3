// Memory of rounds: one round's worth is enough for any number of them, one after the other.
#include "daemon/exchange/reserve.h"

#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint32_t kFragments = 3;

TEST_CASE("fragments that open their rounds together end them on one round's memory") {
  Setup setup{"int4:ef:zstd", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, (1 << 18) + 77};
  setup.fragments = kFragments;
  setup.pool_bytes = 1;  // there is nothing but the reserve
  Group group(3, setup);
  planning::Plan plan;
  plan.codec = Codec(setup.codec);
  plan.route = planning::Route::kOwner;
  plan.parts = {{0, 1366}, {1, 1365}, {2, 1365}};
  group.Know(1, plan);
  for (auto& side : group.sides) {
    for (uint32_t f = 0; f < kFragments; ++f) {
      side->model.Write(f, [&](uint64_t i) { return Noise(f, i); });
      side->Adopt({}, f);
    }
  }
  group.Until([&] { return group.side(2).adopted.size() == kFragments; });
  for (auto& side : group.sides) {
    group.Until([&] { return side->adopted.size() == kFragments; });
  }
  std::vector<uint32_t> finished;
  for (int64_t round = 1; round <= 2; ++round) {
    for (uint32_t f = 0; f < kFragments; ++f) {
      engine::Reduce order = group.Order(round, {1, 1, 1});
      order.fragment = f;
      for (engine::Contributor& c : order.contributors) c.plan = 1;
      for (auto& side : group.sides) {
        side->model.Write(f, [&](uint64_t i) { return Noise(9, i + f); });
        side->Start(round, 1, engine::ClusterSet::FirstOf(3), static_cast<uint64_t>(round), 1, f);
        side->rounds(f).Reduce(order);
      }
    }
    // What every side holds is committed, whichever fragment it is.
    finished.clear();
    while (finished.size() < kFragments) {
      std::optional<uint32_t> next;
      group.Until([&] {
        for (uint32_t f = 0; f < kFragments; ++f) {
          size_t holders = 0;
          for (auto& side : group.sides) {
            for (const engine::ResultHeld& held : side->held) holders += held.fragment == f;
          }
          if (holders == group.sides.size()) next = f;
        }
        return next.has_value();
      });
      engine::Reduce order = group.Order(round, {1, 1, 1});
      for (auto& side : group.sides) {
        std::erase_if(side->held, [&](const engine::ResultHeld& h) { return h.fragment == *next; });
        engine::Commit commit = group.CommitOf(order, engine::OwnPart::kCounted);
        commit.record.fragment = *next;
        const size_t before = side->committed.size();
        side->rounds(*next).Commit(commit);
        side->rounds(*next).Release({7, static_cast<uint64_t>(round)});
        group.Until([&] { return side->committed.size() > before; });
      }
      finished.push_back(*next);
    }
    CHECK(finished == std::vector<uint32_t>{0, 1, 2});  // the oldest first
  }
  for (uint32_t f = 0; f < kFragments; ++f) {
    CHECK(group.side(0).outer->StateHash(f) == group.side(1).outer->StateHash(f));
    CHECK(group.side(0).outer->StateHash(f) == group.side(2).outer->StateHash(f));
  }
}

TEST_CASE("the reserve belongs to the oldest open round until all of it is back") {
  auto budget = memory::Budget::Create(1 << 20);
  memory::BufferPool shared(budget, *budget->Open("shared", 4096), 0);
  auto reserve = exchange::Reserve::Create(&shared, *budget->Open("run"), {64 << 10, 0});
  REQUIRE(reserve.ok());
  exchange::Reserve& memory = **reserve;
  memory.Open(1, 7);
  memory.Open(0, 8);
  auto first = memory.Allocate(1, 60 << 10);
  REQUIRE(first.ok());
  auto surplus = memory.Allocate(0, 4096);  // the younger one may have what is left elsewhere
  CHECK(surplus.ok());
  CHECK(absl::IsResourceExhausted(memory.Allocate(0, 4096).status()));
  memory.Close(1);
  CHECK_FALSE(memory.Allocate(0, 4096).ok());
  first->Reset();
  CHECK(memory.Allocate(0, 60 << 10).ok());
  auto none = exchange::Reserve::Create(&shared, *budget->Open("run"), {2 << 20, 0});
  CHECK(absl::IsResourceExhausted(none.status()));
}

}  // namespace
}  // namespace causeway::testing
