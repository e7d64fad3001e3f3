// A state directory is one process's.
#include "daemon/checkpoint/state_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/checkpoint/directory.h"

namespace causeway::checkpoint {
namespace {

// Whether another process gets the lock.
bool OtherGets(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(StateLock::Take(path).ok() ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

TEST_CASE("one process at a time holds a state directory") {
  const testing::Directory directory;
  auto held = StateLock::Take(directory.path);
  REQUIRE(held.ok());
  CHECK_FALSE(OtherGets(directory.path));
  auto again = StateLock::Take(directory.path);
  REQUIRE(again.status().code() == absl::StatusCode::kUnavailable);
  CHECK(again.status().message().find(directory.path) != absl::string_view::npos);
  held->reset();
  CHECK(OtherGets(directory.path));  // and it is free again once that one has ended
  CHECK(StateLock::Take(directory.path).ok());
}

TEST_CASE("a state directory that is not there is named") {
  const testing::Directory directory;
  const auto lock = StateLock::Take(directory.path + "/none");
  REQUIRE(lock.status().code() == absl::StatusCode::kNotFound);
  CHECK(lock.status().message().find("/none") != absl::string_view::npos);
}

}  // namespace
}  // namespace causeway::checkpoint
