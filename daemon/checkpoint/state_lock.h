// One process at a time writes under a state directory. Two gateways on one would undo each other's
// promises, which is how a run forks; a rollback under a running one would be undone by it.
//
// Held as long as the object lives, and gone with the process however that ends. Any thread. Does
// not: protect where the file system knows no such locks; there it is taken for granted.
#ifndef CAUSEWAY_DAEMON_CHECKPOINT_STATE_LOCK_H_
#define CAUSEWAY_DAEMON_CHECKPOINT_STATE_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace causeway::checkpoint {

class StateLock {
 public:
  // UNAVAILABLE: another process holds it. Never waits. `directory` exists.
  static absl::StatusOr<std::unique_ptr<StateLock>> Take(const std::string& directory);

  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
  ~StateLock();

 private:
  explicit StateLock(int directory) : directory_(directory) {}

  const int directory_;  // a descriptor; the lock is its
};

}  // namespace causeway::checkpoint

#endif  // CAUSEWAY_DAEMON_CHECKPOINT_STATE_LOCK_H_
