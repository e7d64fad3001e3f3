// See foreign_client.h.
#include "tests/integration/security/foreign_client.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>

namespace causeway::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int input = -1;   // write end
  int output = -1;  // read end
};

Child Spawn(std::vector<std::string> words) {
  int input[2], output[2];
  REQUIRE(pipe2(input, O_CLOEXEC) == 0);
  REQUIRE(pipe2(output, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  Child child{.input = input[1], .output = output[0]};
  REQUIRE(posix_spawnp(&child.pid, raw[0], &actions, nullptr, raw.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  return child;
}

// Everything printed until the child closes its output; false after the deadline.
bool ReadAll(Child* child, const std::string& until, std::string* text) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready = {child->output, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[4096];
    const ssize_t got = read(child->output, buffer, sizeof buffer);
    if (got <= 0) return got == 0;
    text->append(buffer, static_cast<size_t>(got));
    if (!until.empty() && child->input >= 0 && text->find(until) != std::string::npos) {
      close(child->input);  // the end of its input makes s_client hang up
      child->input = -1;
    }
  }
}

}  // namespace

std::string RunForeignClient(int port, const std::vector<std::string>& arguments,
                             const std::string& until) {
  std::vector<std::string> words = {"openssl", "s_client", "-connect",
                                    "127.0.0.1:" + std::to_string(port)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Child child = Spawn(std::move(words));
  std::string text;
  const bool ended = ReadAll(&child, until, &text);
  if (!ended) kill(child.pid, SIGKILL);
  if (child.input >= 0) close(child.input);
  close(child.output);
  int status = 0;
  REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
  INFO(text);
  REQUIRE(ended);
  return text;
}

}  // namespace causeway::testing
