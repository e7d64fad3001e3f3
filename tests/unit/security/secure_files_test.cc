// Key and certificate files: what is refused, and that writing is atomic and never replaces
// unasked.
#include "security/secure_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "security/certificate.h"
#include "tests/unit/security/temporary_directory.h"

namespace causeway::security {
namespace {

using testing::TemporaryDirectory;

bool Mentions(const absl::Status& status, const std::string& words) {
  return std::string(status.message()).find(words) != std::string::npos;
}

mode_t ModeOf(const std::string& path) {
  struct stat about = {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

TEST_CASE("a key that others can use is refused with the remedy") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("gateway.key");
  REQUIRE(WriteFileAtomically(path, "secret", {.mode = 0600}).ok());
  CHECK(*ReadSecretFile(path) == "secret");
  for (mode_t mode : {0640, 0604, 0610, 0601, 0620, 0602}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const absl::Status status = ReadSecretFile(path).status();
    INFO(status.message());
    CHECK(status.code() == absl::StatusCode::kPermissionDenied);
    CHECK(Mentions(status, "chmod 0600 " + path));
    CHECK_FALSE(Mentions(status, "secret"));
  }
}

TEST_CASE("a key of another user is refused") {
  if (geteuid() != 0) return;  // only root can give a file away
  const TemporaryDirectory directory;
  const std::string path = directory.File("gateway.key");
  REQUIRE(WriteFileAtomically(path, "secret", {.mode = 0600, .owner = Owner{65534, 65534}}).ok());
  const absl::Status status = ReadSecretFile(path).status();
  CHECK(status.code() == absl::StatusCode::kPermissionDenied);
  CHECK(Mentions(status, "chown"));
}

TEST_CASE("a key behind a link, a directory, a FIFO and a missing key are refused") {
  const TemporaryDirectory directory;
  REQUIRE(WriteFileAtomically(directory.File("real.key"), "secret", {.mode = 0600}).ok());
  REQUIRE(symlink("real.key", directory.File("link.key").c_str()) == 0);
  CHECK(Mentions(ReadSecretFile(directory.File("link.key")).status(), "symbolic link"));
  CHECK_FALSE(ReadSecretFile(directory.path()).ok());
  REQUIRE(mkfifo(directory.File("fifo").c_str(), 0600) == 0);
  CHECK(Mentions(ReadSecretFile(directory.File("fifo")).status(), "regular file"));
  CHECK(ReadSecretFile(directory.File("none")).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE(
    "a certificate that others may replace, or that is no certificate by its size, is refused") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("ca.pem");
  REQUIRE(WriteFileAtomically(path, "public", {.mode = 0644}).ok());
  CHECK(*ReadPublicFile(path) == "public");
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  CHECK(Mentions(ReadPublicFile(path).status(), "chmod 0644"));
  REQUIRE(WriteFileAtomically(path, std::string(kPemBytesMax + 1, 'x'),
                              {.mode = 0644, .overwrite = true})
              .ok());
  CHECK_FALSE(ReadPublicFile(path).ok());
}

TEST_CASE("writing sets the mode whatever the umask and replaces only when asked") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("file");
  const mode_t before = umask(0077);
  REQUIRE(WriteFileAtomically(path, "one", {.mode = 0644}).ok());
  umask(0);
  REQUIRE(WriteFileAtomically(directory.File("key"), "k", {.mode = 0600}).ok());
  umask(before);
  CHECK(ModeOf(path) == 0644);
  CHECK(ModeOf(directory.File("key")) == 0600);
  CHECK(WriteFileAtomically(path, "two", {.mode = 0644}).code() ==
        absl::StatusCode::kAlreadyExists);
  CHECK(*ReadPublicFile(path) == "one");
  CHECK(WriteFileAtomically(path, "two", {.mode = 0600, .overwrite = true}).ok());
  CHECK(*ReadPublicFile(path) == "two");
  CHECK(ModeOf(path) == 0600);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    (void)entry;
    ++files;
  }
  CHECK(files == 2);  // no temporary file stays behind
}

TEST_CASE("directories are made with their parents") {
  const TemporaryDirectory directory;
  CHECK(MakeDirectories(directory.File("a/b/c/"), 0700).ok());
  CHECK(ModeOf(directory.File("a/b/c")) == 0700);
  CHECK(ModeOf(directory.File("a")) == 0755);
  CHECK(MakeDirectories(directory.File("a/b"), 0700).ok());
  CHECK(ModeOf(directory.File("a/b")) == 0755);
  REQUIRE(WriteFileAtomically(directory.File("file"), "x", {}).ok());
  CHECK_FALSE(MakeDirectories(directory.File("file"), 0700).ok());
  CHECK_FALSE(MakeDirectories(directory.File("file/x"), 0700).ok());
}

}  // namespace
}  // namespace causeway::security
