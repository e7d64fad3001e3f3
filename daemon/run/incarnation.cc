// A text file: an operator can read it, and nothing in it can be torn that a number check misses.
#include "daemon/run/incarnation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace causeway::run {
namespace {

absl::Status Failed(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status Write(const std::string& path, uint64_t number) {
  const std::string fresh = path + ".new";
  const std::string text = absl::StrCat(number, "\n");
  const int file =
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Failed("create", fresh);
  absl::Status written = absl::OkStatus();
  if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file) != 0) {
    written = Failed("write", fresh);
  }
  ::close(file);
  if (written.ok() && ::rename(fresh.c_str(), path.c_str()) != 0) written = Failed("rename", fresh);
  return written;
}

}  // namespace

absl::StatusOr<uint64_t> NextIncarnation(const std::string& state_directory, uint64_t clock) {
  const std::string path = state_directory + "/incarnation";
  uint64_t least = 0;
  if (std::ifstream in(path); in) {
    std::string text;
    std::getline(in, text);
    uint64_t before = 0;
    if (!absl::SimpleAtoi(text, &before)) {
      return absl::DataLossError(absl::StrCat(
          path,
          ": not a number; write one in that is larger than this gateway's incarnation as its "
          "peers' `causeway status --json` shows it"));
    }
    least = before + kLivesMax;
  }
  const uint64_t number = std::max(clock, least);
  const absl::Status written = Write(path, number);
  if (!written.ok() && number != clock) return written;
  return number;
}

}  // namespace causeway::run
