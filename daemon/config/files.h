// Looks at what a configuration names on this machine: files, directories, sockets, groups.
//
// Blocking, any thread. Ok, or a status whose message reads after "key: " and carries the remedy.
// Reads no contents and opens nothing for writing. The daemon judges key files again on the
// descriptor that it reads (security/secure_files.h): a check by path can be outrun.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace causeway::config {

// A regular file that this process can read.
absl::Status CheckReadableFile(const std::string& path);
// As above, and a private key: no link, mode without any bit of 077, owned by this process's user
// (root may check another user's).
absl::Status CheckKeyFile(const std::string& path);
// Fits a socket address; whatever lies there already is a socket.
absl::Status CheckSocketPath(const std::string& path);
// The directory that `path` lies in exists.
absl::Status CheckParentDirectory(const std::string& path);
// A directory, or something that can become one: its parent exists.
absl::Status CheckStateDirectory(const std::string& path);
absl::Status CheckGroup(const std::string& name);

}  // namespace causeway::config
