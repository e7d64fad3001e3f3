// A unix listening socket that has its mode and group before anybody can connect to it.
//
// Thread: one. A server binds a path in a directory that only this user can enter; Publish gives
// the socket its mode and group there and moves it to its public path in one step. Setting the
// umask around bind was rejected: it is the whole process's, and other threads make files
// meanwhile.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::admin {

class PublishedSocket {
 public:
  // Makes the private directory beside `path`. AlreadyExists when a process answers on `path`,
  // FailedPrecondition when something other than a socket lies there.
  static absl::StatusOr<PublishedSocket> Prepare(const std::string& path);
  PublishedSocket(PublishedSocket&& other) noexcept;
  PublishedSocket& operator=(PublishedSocket&&) = delete;
  // Removes the published socket if it is still ours, and what an unfinished start left.
  ~PublishedSocket();

  // Where the server binds.
  const std::string& private_path() const { return private_path_; }
  // After bind. Replaces a stale socket. `group`: empty keeps the process's own.
  absl::Status Publish(mode_t mode, const std::string& group);

 private:
  PublishedSocket(std::string path, std::string directory);

  std::string path_;
  std::string directory_;  // empty: moved from
  std::string private_path_;
  bool published_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace causeway::admin
