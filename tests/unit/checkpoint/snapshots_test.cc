// Labels: the newest few stay, one that is given again begins anew, and only a whole one is
// restored.
#include "daemon/checkpoint/snapshots.h"

#include <catch2/catch.hpp>

#include "tests/unit/checkpoint/directory.h"

namespace causeway::testing {
namespace {

using checkpoint::File;
using checkpoint::Snapshots;
using checkpoint::Store;

void Keep(const Snapshots& snapshots, const std::string& label, const std::string& header,
          uint32_t fragments = 2, size_t kept = 2) {
  REQUIRE(snapshots.Begin(label, kept).ok());
  REQUIRE(snapshots.Of(label).WriteSchema(Noise(100, 1)).ok());
  for (uint32_t fragment = 0; fragment < fragments; ++fragment) {
    REQUIRE(snapshots.Of(label).Write(fragment, header, {Noise(10, 1)}, nullptr).ok());
  }
}

TEST_CASE("the newest labels stay") {
  const Directory directory;
  const Snapshots snapshots(directory / "demo.snapshots");
  CHECK(snapshots.Labels().empty());
  Keep(snapshots, "a", "1");
  Keep(snapshots, "b", "2");
  Keep(snapshots, "a", "3", 1);  // again: the newest now, with nothing of what it was
  CHECK(snapshots.Labels() == std::vector<std::string>{"b", "a"});
  CHECK(snapshots.Of("a").Files(1).empty());
  Keep(snapshots, "c", "4");
  CHECK(snapshots.Labels() == std::vector<std::string>{"a", "c"});
}

TEST_CASE("a whole snapshot takes the place of the run's files") {
  const Directory directory;
  const Snapshots snapshots(directory / "demo.snapshots");
  const Store store(directory / "demo.state");
  REQUIRE(store.Write(0, "later", {Noise(10, 1)}, nullptr).ok());
  REQUIRE(store.Write(1, "later", {Noise(10, 1)}, nullptr).ok());
  CHECK(absl::IsNotFound(snapshots.Restore("a", store).status()));
  Keep(snapshots, "half", "earlier", 1);
  Keep(snapshots, "a", "earlier");
  CHECK(absl::IsFailedPrecondition(snapshots.Restore("half", store).status()));
  REQUIRE(*snapshots.Restore("a", store) == 2);
  for (uint32_t fragment : {0, 1}) {
    REQUIRE(store.Files(fragment).size() == 1);
    CHECK(File::Open(store.Files(fragment)[0])->header() == "earlier");
  }
  CHECK(*store.ReadSchema() == Noise(100, 1));
  CHECK(File::Open(directory / "demo.state.set-aside/fragment-0.current")->header() == "later");
  // Torn: nothing changes.
  Replace(snapshots.Of("a").Files(1)[0], "half");
  CHECK(absl::IsDataLoss(snapshots.Restore("a", store).status()));
  CHECK(store.Files(0).size() == 1);
}

}  // namespace
}  // namespace causeway::testing
