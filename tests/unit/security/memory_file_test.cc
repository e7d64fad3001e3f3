// MemoryFile: read by path, swapped in one step, sealed.
#include "security/memory_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace causeway::security {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

time_t ModifiedAt(const std::string& path) {
  struct stat about = {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mtime;
}

TEST_CASE("a memory file is read by its path, which stays when the bytes change") {
  absl::StatusOr<MemoryFile> file = MemoryFile::Create("test", "one", 1000);
  REQUIRE(file.ok());
  const std::string path = file->path();
  CHECK(Contents(path) == "one");
  CHECK(ModifiedAt(path) == 1000);
  std::ifstream earlier(path);
  REQUIRE(file->Replace("two, longer", 1001).ok());
  CHECK(file->path() == path);
  CHECK(Contents(path) == "two, longer");
  CHECK(ModifiedAt(path) == 1001);
  std::string word;
  earlier >> word;
  CHECK(word == "one");  // who opened it before reads what was there, whole
}

TEST_CASE("a memory file cannot be written and is private to its owner") {
  absl::StatusOr<MemoryFile> file = MemoryFile::Create("test", "one", 1000);
  REQUIRE(file.ok());
  struct stat about = {};
  REQUIRE(stat(file->path().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  const int fd = open(file->path().c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0);
  CHECK(write(fd, "x", 1) == -1);
  CHECK(ftruncate(fd, 0) == -1);
  close(fd);
  CHECK(Contents(file->path()) == "one");
}

TEST_CASE("moving a memory file keeps its path") {
  absl::StatusOr<MemoryFile> file = MemoryFile::Create("test", "one", 1000);
  REQUIRE(file.ok());
  const std::string path = file->path();
  const MemoryFile moved = *std::move(file);
  CHECK(moved.path() == path);
  CHECK(Contents(path) == "one");
}

}  // namespace
}  // namespace causeway::security
