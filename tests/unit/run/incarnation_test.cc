// Incarnations ascend whatever the clock says.
#include "daemon/run/incarnation.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace causeway::run {
namespace {

struct Directory {
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "causeway-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST_CASE_METHOD(Directory, "incarnations ascend although the clock is set back") {
  CHECK(*NextIncarnation(path, 100) == 100);
  CHECK(*NextIncarnation(path, 2 * kLivesMax) == 2 * kLivesMax);
  // A process counts on where it forgets a run: its last number is not on disk.
  const uint64_t back = *NextIncarnation(path, 50);
  CHECK(back == 3 * kLivesMax);
  CHECK(*NextIncarnation(path, back) == back + kLivesMax);
  CHECK(*NextIncarnation(path, 9 * kLivesMax) == 9 * kLivesMax);
}

TEST_CASE_METHOD(Directory, "what is no number is refused by name") {
  std::ofstream(path + "/incarnation") << "soon";
  const absl::Status status = NextIncarnation(path, 5).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message().find(path + "/incarnation") != absl::string_view::npos);
}

TEST_CASE("a disk that cannot be written is no harm while the clock is ahead") {
  CHECK(*NextIncarnation("/nowhere", 7) == 7);
}

}  // namespace
}  // namespace causeway::run
