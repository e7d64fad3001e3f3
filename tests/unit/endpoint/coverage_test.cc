// Slices of several ranks: each element exactly once, padding of no concern.
#include "daemon/endpoint/coverage.h"

#include <catch2/catch.hpp>

#include "tests/unit/schema/records.h"

namespace causeway::endpoint {
namespace {

using testing::BytesOf;
using testing::Record;

schema::Layout MakeLayout() {
  const std::vector<local::TensorRecord> records = {Record("a", {300}), Record("b", {256}),
                                                    Record("c", {10})};
  return *schema::Layout::Build(*schema::Schema::Parse(BytesOf(records), 3), 1);
}

TEST_CASE("a whole fragment by one rank, or piece by piece in any order") {
  const schema::Layout layout = MakeLayout();  // a at 0, b at 512, c at 768; 1024 elements
  Coverage coverage(layout, 0);
  CHECK(coverage.FirstMissing() == 0u);
  REQUIRE(coverage.Add(0, 1024, 0).ok());
  CHECK(!coverage.FirstMissing());
  coverage.Clear();
  REQUIRE(coverage.Add(512, 266, 2).ok());  // b and c
  CHECK(coverage.FirstMissing() == 0u);
  REQUIRE(coverage.Add(0, 100, 0).ok());
  CHECK(coverage.FirstMissing() == 100u);
  REQUIRE(coverage.Add(200, 100, 1).ok());
  CHECK(coverage.FirstMissing() == 100u);
  REQUIRE(coverage.Add(100, 100, 1).ok());
  CHECK(!coverage.FirstMissing());  // 300 to 511 and 778 to 1023 are padding
  CHECK(coverage.Add(300, 212, 3).ok());
}

TEST_CASE("overlaps are refused, naming who was first, and change nothing") {
  const schema::Layout layout = MakeLayout();
  Coverage coverage(layout, 0);
  REQUIRE(coverage.Add(100, 100, 4).ok());
  for (auto [first, count] : {std::pair<uint64_t, uint64_t>{100, 100},
                              {0, 101},
                              {199, 1},
                              {150, 10},
                              {0, 1024},
                              {100, 1}}) {
    const absl::Status status = coverage.Add(first, count, 5);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find("rank 4") != std::string::npos);
  }
  CHECK(coverage.Add(0, 100, 5).ok());
  CHECK(coverage.Add(200, 824, 5).ok());
  CHECK(!coverage.FirstMissing());
}

TEST_CASE("slices that leave the fragment are refused, empty ones are legal") {
  const schema::Layout layout = MakeLayout();
  Coverage coverage(layout, 0);
  CHECK(!coverage.Add(0, 1025, 0).ok());
  CHECK(!coverage.Add(1024, 1, 0).ok());
  CHECK(!coverage.Add(UINT64_MAX, 2, 0).ok());
  CHECK(!coverage.Add(1, UINT64_MAX, 0).ok());
  CHECK(coverage.Add(1024, 0, 0).ok());
  CHECK(coverage.Add(0, 0, 0).ok());
  CHECK(coverage.FirstMissing() == 0u);
}

}  // namespace
}  // namespace causeway::endpoint
