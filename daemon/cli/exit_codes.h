// What the command's exit status means to scripts (sysexits.h's numbers).
#pragma once

#include "absl/status/status.h"

namespace causeway::cli {

enum ExitCode : int {
  kOk = 0,
  kUsage = 64,        // wrong arguments, or a name that does not exist
  kUnavailable = 69,  // no daemon answers, or it cannot do that now
  kBug = 70,          // ours
  kInputOutput = 74,  // a file could not be read or written
  kPermission = 77,
  kConfiguration = 78,  // a file says something wrong
};

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace causeway::cli
