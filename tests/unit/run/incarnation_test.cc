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
  CHECK(*NextIncarnation(path, 200) == 200);
  CHECK(*NextIncarnation(path, 50) == 201);
  CHECK(*NextIncarnation(path, 201) == 202);
  CHECK(*NextIncarnation(path, 300) == 300);
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
