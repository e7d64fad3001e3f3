#include "command.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace causeway::cli::testing {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Directory::Directory() {
  std::string name = (std::filesystem::temp_directory_path() / "causeway-cli-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path = name;
}

Directory::~Directory() { std::filesystem::remove_all(path); }

std::string Directory::File(const std::string& name, const std::string& text) const {
  const std::string file = path + "/" + name;
  std::ofstream(file) << text;
  return file;
}

Result RunCommand(const std::vector<std::string>& arguments) {
  const Directory directory;  // files, not pipes: nothing to drain
  const std::string out = directory.path + "/out";
  const std::string err = directory.path + "/err";
  std::vector<std::string> words = {CAUSEWAY_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  REQUIRE(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
  REQUIRE(posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), kWrite, 0600) == 0);
  REQUIRE(posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), kWrite, 0600) == 0);
  pid_t pid = 0;
  REQUIRE(posix_spawn(&pid, CAUSEWAY_COMMAND, &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(out), ReadAll(err)};
}

}  // namespace causeway::cli::testing
