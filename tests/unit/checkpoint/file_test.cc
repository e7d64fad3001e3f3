// A checkpoint file is whole, or refused with its name; whatever bytes it holds.
#include "daemon/checkpoint/file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/unit/checkpoint/directory.h"

namespace causeway::testing {
namespace {

using checkpoint::File;
using checkpoint::kBlockBytes;
using checkpoint::WriteFile;

// Ok only if every section can be read, too.
absl::Status ReadAll(const std::string& path) {
  absl::StatusOr<File> file = File::Open(path);
  if (!file.ok()) return file.status();
  for (size_t i = 0; i < file->sections(); ++i) {
    std::vector<uint8_t> out(file->size(i));
    if (absl::Status read = file->Read(i, absl::MakeSpan(out)); !read.ok()) return read;
  }
  return absl::OkStatus();
}

TEST_CASE("what is written is read: empty, short and many-block sections") {
  const Directory directory;
  const std::vector<uint8_t> small = Noise(1000, 1);
  const std::vector<uint8_t> large = Noise(2 * kBlockBytes + 7, 2);
  std::vector<size_t> told;
  REQUIRE(WriteFile(directory / "a", "header", {small, {}, large}, [&](size_t i) {
            told.push_back(i);
          }).ok());
  CHECK(told == std::vector<size_t>{0, 1, 2});
  absl::StatusOr<File> file = File::Open(directory / "a");
  REQUIRE(file.ok());
  CHECK(file->header() == "header");
  REQUIRE(file->sections() == 3);
  std::vector<uint8_t> out(large.size());
  REQUIRE(file->Read(2, absl::MakeSpan(out)).ok());
  CHECK(out == large);
  struct stat status {};
  REQUIRE(::stat((directory / "a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a file that is not wanted any more is given up at the next block, and is gone") {
  Directory directory;
  const std::string path = directory / "a";
  const std::vector<uint8_t> large = Noise(3 * checkpoint::kBlockBytes, 4);
  int asked = 0;
  size_t sections = 0;
  const absl::Status status = WriteFile(
      path, "header", {large}, [&](size_t) { ++sections; }, [&] { return ++asked < 3; });
  CHECK(status.code() == absl::StatusCode::kCancelled);
  CHECK(asked == 3);
  CHECK(sections == 0);
  CHECK(File::Open(path).status().code() == absl::StatusCode::kNotFound);
  // Nor is one whose memory was read whole, but may have changed while it was.
  asked = 0;
  CHECK_FALSE(WriteFile(path, "header", {large}, nullptr, [&] { return ++asked < 4; }).ok());
  CHECK(File::Open(path).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a file that does not exist is not found") {
  CHECK(absl::IsNotFound(File::Open("/nowhere/at/all").status()));
}

// Opening one would wait for whoever writes into it, and the daemon with it.
TEST_CASE("a pipe in a file's place is refused by name") {
  const Directory directory;
  const std::string path = directory / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const absl::Status status = File::Open(path).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message() == path + ": not a regular file");
}

TEST_CASE("a file cut short anywhere is refused by name") {
  const Directory directory;
  const std::string path = directory / "a";
  REQUIRE(WriteFile(path, "some header", {Noise(300, 1), Noise(5, 2)}, nullptr).ok());
  const std::string whole = BytesOf(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    Replace(path, whole.substr(0, size));
    const absl::Status status = ReadAll(path);
    REQUIRE(status.code() == absl::StatusCode::kDataLoss);
    REQUIRE(status.message().find(path) != absl::string_view::npos);
  }
  Replace(path, whole + "x");
  CHECK(ReadAll(path).code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("any altered bit is refused by name") {
  const Directory directory;
  const std::string path = directory / "a";
  REQUIRE(WriteFile(path, "some header", {Noise(300, 1), Noise(5, 2)}, nullptr).ok());
  const std::string whole = BytesOf(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit : {0, 7}) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
      Replace(path, altered);
      REQUIRE(ReadAll(path).code() == absl::StatusCode::kDataLoss);
    }
  }
}

TEST_CASE("sizes from a hostile file are bounded by what the file has") {
  const Directory directory;
  const std::string path = directory / "a";
  for (uint32_t header : {0u, 1u << 20, 0xffffffffu}) {
    for (uint64_t section : {uint64_t{0}, uint64_t{1} << 43, ~uint64_t{0}}) {
      std::string bytes = "CWCKPT1\n";
      const uint32_t sections = 4;
      bytes.append(reinterpret_cast<const char*>(&header), 4);
      bytes.append(reinterpret_cast<const char*>(&sections), 4);
      for (int i = 0; i < 4; ++i) bytes.append(reinterpret_cast<const char*>(&section), 8);
      Replace(path, bytes + std::string(100, 'x'));
      CHECK(File::Open(path).status().code() == absl::StatusCode::kDataLoss);
    }
  }
}

TEST_CASE("a place that cannot be written is named, and nothing is left") {
  const absl::Status status = WriteFile("/nowhere/a", "", {}, nullptr);
  CHECK(status.message().find("/nowhere/a") != absl::string_view::npos);
}

}  // namespace
}  // namespace causeway::testing
