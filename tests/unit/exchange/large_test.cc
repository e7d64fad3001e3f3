// One tensor of more than 2 GiB through a whole round: 9 GiB of memory, so only by name.
//
//   build/dev/tests/unit/exchange/test_exchange "[long]"
#include <cmath>

#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = (uint64_t{1} << 29) + (uint64_t{5} << 18) + 77;  // 2 GiB and more

// The same in a whole chunk; another one in the next, further off than int8 rounds.
float InChunk(uint64_t element) { return static_cast<float>((element >> 18) % 113) - 56; }

TEST_CASE("a tensor of more than 2 GiB goes the way of any other", "[.][long]") {
  Setup setup{"int8", {outer::RuleSpec::Kind::kGradients}, kElements};
  Group group(1, setup);
  Side& side = group.a();
  REQUIRE(side.model.layout->snapshot_bytes() > uint64_t{1} << 31);
  const auto until = [&](auto condition) {
    while (!condition()) {
      group.loop->After(200, [&] { group.loop->Stop(); });
      group.loop->Run();
    }
  };
  side.Adopt({});
  until([&] { return !side.adopted.empty(); });
  auto* snapshot = reinterpret_cast<float*>(side.model.snapshot +
                                            side.model.layout->fragments()[0].snapshot_offset);
  for (uint64_t i = 0; i < kElements; ++i) snapshot[i] = InChunk(i);
  const engine::Reduce order = group.Order(1, {4});
  side.Start(1, 4, engine::ClusterSet{0}, 1);
  side.rounds().Reduce(order);
  until([&] { return !side.held.empty(); });
  side.rounds().Commit(group.CommitOf(order, engine::OwnPart::kCounted));
  side.rounds().Release({7, 1});
  until([&] { return !side.committed.empty(); });
  const absl::Span<const float> value = side.Value(1);
  REQUIRE(value.size() >= kElements);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kElements; ++i) {
    wrong += std::abs(value[i] - InChunk(i)) <= 0.008f * std::abs(InChunk(i)) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace causeway::testing
