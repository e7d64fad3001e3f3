// Secure files: reading keys and certificates, and writing them, so that neither a link, a loose
// mode nor a crash midway can surprise.
//
// Blocking file I/O, callable from any thread. Knows nothing of what the bytes mean.
#ifndef CAUSEWAY_SECURITY_SECURE_FILES_H_
#define CAUSEWAY_SECURITY_SECURE_FILES_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::security {

// A private key's bytes. Refused (PermissionDenied, with the command that mends it): a symbolic
// link as the last component, anything but a regular file, mode & 077, an owner other than this
// process's user. Judged on the open descriptor, so that the file cannot change in between.
// NotFound: no file.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// A certificate's bytes: a regular file (links are followed), kPemBytesMax at most. Refused when
// others than its owner may write it, since who replaces the authority replaces everybody.
absl::StatusOr<std::string> ReadPublicFile(const std::string& path);

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};

struct WriteOptions {
  mode_t mode = 0644;          // exactly this, whatever the umask
  std::optional<Owner> owner;  // given away before the file appears; needs root
  bool overwrite = false;      // false: AlreadyExists when the path exists, and it stays as it was
};

// Writes a file that appears under its name whole, synced to disk, or not at all.
absl::Status WriteFileAtomically(const std::string& path, const std::string& bytes,
                                 const WriteOptions& options);

// Makes the directory and its missing parents (0755; the last one with `mode`). Existing:
// untouched.
absl::Status MakeDirectories(const std::string& path, mode_t mode);

// The user's ids by name. NotFound names the user.
absl::StatusOr<Owner> FindOwner(const std::string& user);

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_SECURE_FILES_H_
