// What the configuration names on this machine.
#include "daemon/config/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "sample.h"

namespace causeway::config {
namespace {

// A directory of its own, removed at the end.
struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "causeway-config-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string File(const std::string& name, mode_t mode) const {
    const std::string file = path + "/" + name;
    std::ofstream(file) << "x";
    REQUIRE(chmod(file.c_str(), mode) == 0);
    return file;
  }
  std::string path;
};

TEST_CASE("key files") {
  const Directory directory;
  CHECK(CheckKeyFile(directory.File("good", 0600)).ok());
  CHECK(CheckKeyFile(directory.File("tighter", 0400)).ok());
  for (const mode_t mode : {0640, 0604, 0610, 0666}) {
    const std::string file = directory.File("loose", mode);
    const absl::Status status = CheckKeyFile(file);
    INFO(status);
    CHECK(absl::IsPermissionDenied(status));
    CHECK(status.message().find("chmod 0600 " + file) != std::string::npos);
  }
  const std::string link = directory.path + "/link";
  REQUIRE(symlink(directory.File("target", 0600).c_str(), link.c_str()) == 0);
  CHECK(CheckKeyFile(link).message().find("symbolic link") != std::string::npos);
  CHECK(CheckKeyFile(directory.path).message().find("not a regular file") != std::string::npos);
  CHECK(absl::IsNotFound(CheckKeyFile(directory.path + "/absent")));
}

TEST_CASE("sockets and directories") {
  const Directory directory;
  CHECK(CheckSocketPath(directory.path + "/new.sock").ok());
  CHECK(CheckSocketPath(directory.File("file", 0600)).message().find("not a socket") !=
        std::string::npos);
  CHECK_FALSE(CheckSocketPath("/" + std::string(101, 'x')).ok());
  CHECK(CheckStateDirectory(directory.path).ok());
  CHECK(CheckStateDirectory(directory.path + "/new").ok());
  CHECK(CheckStateDirectory(directory.path + "/a/b").message().find("install -d -m 0700") !=
        std::string::npos);
  CHECK(CheckStateDirectory(directory.path + "/file").message().find("not a directory") !=
        std::string::npos);
}

TEST_CASE("groups") {
  CHECK(CheckGroup("root").ok());
  CHECK(CheckGroup("no-such-group").message().find("groupadd --system no-such-group") !=
        std::string::npos);
}

TEST_CASE("a parse reports the files at their place") {
  const Directory directory;
  std::vector<std::string> lines = testing::SampleLines();
  lines[3] = "  certificate: " + directory.File("gateway.pem", 0644);
  lines[4] = "  key: " + directory.File("gateway.key", 0644);
  lines[5] = "  authority: " + directory.path + "/absent.pem";
  lines.push_back("trainers: {socket: " + directory.path + "/missing/t.sock}");
  const std::string file = directory.path + "/causeway.yaml";
  std::ofstream(file) << testing::Join(lines);
  const ParseResult result = Parse(file);
  INFO(result.ErrorText());
  REQUIRE(result.errors.size() == 2);
  CHECK(result.errors[0].line == 5);
  CHECK(result.errors[0].column == 8);
  CHECK(result.errors[0].key == "tls.key");
  CHECK(result.errors[1].line == 6);
  CHECK(result.errors[1].message == "'" + directory.path + "/absent.pem' does not exist");
  REQUIRE_FALSE(result.warnings.empty());
  CHECK(result.warnings.back().key == "trainers.socket");
}

TEST_CASE("files that cannot be read") {
  const Directory directory;
  CHECK(Parse(directory.path + "/absent.yaml").read_errno == ENOENT);
  CHECK(Parse(directory.path).read_errno == EISDIR);
  const std::string large = directory.path + "/large.yaml";
  std::ofstream(large) << std::string(kFileBytesMax + 1, '#');
  CHECK(Parse(large).read_errno == EFBIG);
  CHECK(Parse("/dev/zero").read_errno == EFBIG);
}

}  // namespace
}  // namespace causeway::config
