// From a YAML file to a Config, or to every error that the file has, each with line and column.
//
// Thread: any; nothing is kept between calls. Reads the file and, unless told otherwise, looks at
// the files, directories and groups that it names. Never throws. Does not: open sockets, check
// certificates against each other (security/credentials.h does), or compare with what other
// clusters configured (the join does).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"

namespace causeway::config {

inline constexpr size_t kFileBytesMax = size_t{1} << 20;

// One finding. `line` and `column` count from 1; both are 0 where the file as a whole is meant.
struct Diagnostic {
  int line = 0;
  int column = 0;
  std::string key;      // as "runs[0].algorithm.delay"; empty where no key is meant
  std::string message;  // names the thing, the rule and the remedy
};

struct ParseOptions {
  bool check_files = true;  // files, directories, modes and groups of this machine
};

struct ParseResult {
  std::string file;                  // as the caller named it
  std::optional<Config> config;      // set exactly when there are no errors
  std::vector<Diagnostic> errors;    // in the file's order
  std::vector<Diagnostic> warnings;  // legal, yet probably not what was meant
  int read_errno = 0;                // why the file itself could not be read; 0: it was

  bool ok() const { return config.has_value(); }
  // "file:line:column: key: message", a line per error; empty without errors.
  std::string ErrorText() const;
  // The same with "warning: " before the key.
  std::string WarningText() const;
};

ParseResult Parse(const std::string& path, const ParseOptions& options = {});

// The same for text in memory; `name` takes the file's place in messages.
ParseResult ParseText(std::string_view text, std::string_view name,
                      const ParseOptions& options = {});

// Every key that a file may hold, as "peers[].address"; deploy/config/causeway.yaml explains them
// all.
std::vector<std::string> KnownKeys();

}  // namespace causeway::config
