// Runs the real `causeway` and keeps what it said. Blocking, one thread.
#pragma once

#include <string>
#include <vector>

namespace causeway::cli::testing {

struct Result {
  int code;  // -1: ended by a signal
  std::string out;
  std::string err;
};

Result RunCommand(const std::vector<std::string>& arguments);

// A directory that is removed at the end.
struct Directory {
  Directory();
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string File(const std::string& name, const std::string& text) const;  // its path
  std::string path;
};

}  // namespace causeway::cli::testing
