// The newest file and the one before it; whatever interrupts a write, one of them is whole.
#include "daemon/checkpoint/store.h"

#include <catch2/catch.hpp>

#include "tests/unit/checkpoint/directory.h"

namespace causeway::testing {
namespace {

using checkpoint::File;
using checkpoint::Store;

std::string HeaderOf(const std::string& path) {
  absl::StatusOr<File> file = File::Open(path);
  return file.ok() ? file->header() : std::string(file.status().message());
}

TEST_CASE("the current file and the previous one are kept, per fragment") {
  const Directory directory;
  const Store store(directory / "demo.state");
  CHECK(store.Files(0).empty());
  for (const char* header : {"one", "two", "three"}) {
    REQUIRE(store.Write(0, header, {Noise(10, 1)}, nullptr).ok());
  }
  REQUIRE(store.Write(7, "other", {}, nullptr).ok());
  REQUIRE(store.Files(0).size() == 2);
  CHECK(HeaderOf(store.Files(0)[0]) == "three");
  CHECK(HeaderOf(store.Files(0)[1]) == "two");
  REQUIRE(store.Files(7).size() == 1);
}

TEST_CASE("a write that was interrupted leaves what was there") {
  const Directory directory;
  const Store store(directory / "demo.state");
  REQUIRE(store.Write(0, "one", {Noise(10, 1)}, nullptr).ok());
  // Killed while writing: half a file beside it.
  Replace(directory / "demo.state/fragment-0.new", "half");
  REQUIRE(store.Files(0).size() == 1);
  CHECK(HeaderOf(store.Files(0)[0]) == "one");
  // Killed between the two renames: the previous one is what there is.
  std::filesystem::rename(directory / "demo.state/fragment-0.current",
                          directory / "demo.state/fragment-0.previous");
  REQUIRE(store.Files(0).size() == 1);
  CHECK(HeaderOf(store.Files(0)[0]) == "one");
  REQUIRE(store.Write(0, "two", {Noise(10, 1)}, nullptr).ok());
  CHECK(HeaderOf(store.Files(0)[0]) == "two");
}

TEST_CASE("schema, removal, and setting aside") {
  const Directory directory;
  const Store store(directory / "demo.state");
  CHECK(absl::IsNotFound(store.ReadSchema().status()));
  CHECK_FALSE(*store.SetAside());
  const std::vector<uint8_t> records = Noise(500, 3);
  REQUIRE(store.WriteSchema(records).ok());
  CHECK(*store.ReadSchema() == records);
  CHECK(*store.SetAside());
  CHECK(absl::IsNotFound(store.ReadSchema().status()));
  REQUIRE(store.WriteSchema(records).ok());
  CHECK(*store.SetAside());
  CHECK(std::filesystem::exists(directory / "demo.state.set-aside/schema"));
  REQUIRE(store.WriteSchema(records).ok());
  REQUIRE(store.Remove().ok());
  CHECK(store.Remove().ok());
  CHECK_FALSE(std::filesystem::exists(directory / "demo.state"));
}

TEST_CASE("a directory that cannot be made is named") {
  const absl::Status status = Store("/nowhere/demo.state").Write(0, "", {}, nullptr);
  CHECK(status.message().find("/nowhere/demo.state") != absl::string_view::npos);
}

}  // namespace
}  // namespace causeway::testing
