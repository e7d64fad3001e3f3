// The unit is well-formed and hardened, by systemd's own tools. Needs the package systemd.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace causeway {
namespace {

const std::string kDeploy = CAUSEWAY_DEPLOY;
constexpr double kExposureMax = 1.5;

struct Output {
  std::string text;
  int code;
};

Output Run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Output output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) output.text.append(buffer, n);
  const int status = pclose(pipe);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "causeway-unit-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST_CASE("the unit's exposure") {
  const Output output = Run("systemd-analyze security --offline=yes --no-pager " + kDeploy +
                            "/systemd/causewayd.service");
  INFO(output.text);
  std::smatch match;
  REQUIRE(std::regex_search(output.text, match,
                            std::regex("Overall exposure level for causewayd.service: ([0-9.]+)")));
  CHECK(std::stod(match[1]) <= kExposureMax);
}

TEST_CASE("the unit verifies") {
  const Directory directory;
  std::string unit = ReadAll(kDeploy + "/systemd/causewayd.service");
  // The daemon need not be installed where the tests run.
  unit =
      std::regex_replace(unit, std::regex("ExecStart=/usr/bin/causewayd "), "ExecStart=/bin/true ");
  const std::string file = directory.path + "/causewayd.service";
  std::ofstream(file) << unit;
  const Output output = Run("systemd-analyze verify --man=no " + file);
  INFO(output.text);
  CHECK(output.code == 0);
  CHECK(output.text.empty());
}

TEST_CASE("the GPU drop-in verifies on top of it") {
  const Directory directory;
  std::string unit = ReadAll(kDeploy + "/systemd/causewayd.service");
  unit =
      std::regex_replace(unit, std::regex("ExecStart=/usr/bin/causewayd "), "ExecStart=/bin/true ");
  std::ofstream(directory.path + "/causewayd.service") << unit;
  std::filesystem::create_directory(directory.path + "/causewayd.service.d");
  std::filesystem::copy_file(kDeploy + "/systemd/causewayd-gpu.conf",
                             directory.path + "/causewayd.service.d/gpu.conf");
  const Output output =
      Run("SYSTEMD_UNIT_PATH=" + directory.path + ": systemd-analyze verify --man=no " +
          directory.path + "/causewayd.service");
  INFO(output.text);
  CHECK(output.code == 0);
  CHECK(output.text.find("gpu.conf") == std::string::npos);  // no complaint about it
}

TEST_CASE("users, groups and directories agree with the unit") {
  const std::string unit = ReadAll(kDeploy + "/systemd/causewayd.service");
  const std::string users = ReadAll(kDeploy + "/sysusers.d/causeway.conf");
  const std::string directories = ReadAll(kDeploy + "/tmpfiles.d/causeway.conf");
  CHECK(unit.find("\nUser=causeway\n") != std::string::npos);
  CHECK(std::regex_search(users, std::regex("\nu +causeway ")));
  CHECK(std::regex_search(users, std::regex("\nm +causeway +causeway-admin")));
  CHECK(
      std::regex_search(directories, std::regex("\nd +/var/lib/causeway +0700 causeway causeway")));
  CHECK(std::regex_search(directories, std::regex("\nd +/etc/causeway/pki +0750 root +causeway")));
}

TEST_CASE("systemd makes the users") {
  if (geteuid() != 0) {
    WARN("needs root: sysusers gives the files it writes to root");
    return;
  }
  const Directory root;
  std::filesystem::create_directories(root.path + "/usr/lib/sysusers.d");
  std::filesystem::create_directories(root.path + "/etc");
  std::filesystem::copy_file(kDeploy + "/sysusers.d/causeway.conf",
                             root.path + "/usr/lib/sysusers.d/causeway.conf");
  const Output output = Run("systemd-sysusers --root=" + root.path);
  INFO(output.text);
  CHECK(output.code == 0);
  CHECK(ReadAll(root.path + "/etc/passwd").find("causeway:") == 0);
  CHECK(std::regex_search(ReadAll(root.path + "/etc/group"),
                          std::regex("causeway-admin:x:[0-9]+:causeway\n")));
}

TEST_CASE("the TCP settings are settings of this kernel's names") {
  std::istringstream text(ReadAll(kDeploy + "/sysctl.d/90-causeway.conf"));
  std::set<std::string> seen;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find(" = ");
    INFO(line);
    REQUIRE(equals != std::string::npos);
    CHECK(line.compare(0, 4, "net.") == 0);
    CHECK(seen.insert(line.substr(0, equals)).second);
    CHECK(line.size() > equals + 3);
  }
  CHECK(seen.size() >= 8);
}

}  // namespace
}  // namespace causeway
