// The directory itself is locked: a file in it could not be made on a full disk, and would outlive
// a crash.
#include "daemon/checkpoint/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace causeway::checkpoint {

absl::StatusOr<std::unique_ptr<StateLock>> StateLock::Take(const std::string& directory) {
  const int opened = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", directory));
  std::unique_ptr<StateLock> lock(new StateLock(opened));
  if (::flock(opened, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::UnavailableError(
        absl::StrCat("state_directory ", directory,
                     " is in use by another process: two gateways on one would undo each other's "
                     "promises; end that one, or give each a state_directory of its own"));
  }
  return lock;
}

StateLock::~StateLock() { ::close(directory_); }

}  // namespace causeway::checkpoint
