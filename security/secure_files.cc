// See secure_files.h. A new file is written under a temporary name in the same directory and then
// linked (never replaces) or renamed (replaces) into place; opening the final name with O_EXCL was
// rejected because a crash midway would leave half a key behind.
#include "security/secure_files.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "security/certificate.h"

namespace causeway::security {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

absl::Status ErrnoError(const std::string& what, int error) {
  const std::string text = what + ": " + std::strerror(error);
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return absl::UnavailableError(text);
  }
}

std::string Octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

std::string UserName(uid_t user) {
  std::vector<char> buffer(16 * 1024);
  struct passwd entry = {};
  struct passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return entry.pw_name;
  }
  return std::to_string(user);
}

absl::Status CheckSecret(const std::string& path, const struct stat& about) {
  if ((about.st_mode & 077) != 0) {
    return absl::PermissionDeniedError("private key " + path + " has mode " + Octal(about.st_mode) +
                                       ", so others can use it; mend it with: chmod 0600 " + path);
  }
  if (about.st_uid != geteuid()) {
    return absl::PermissionDeniedError("private key " + path + " belongs to " +
                                       UserName(about.st_uid) + ", but this process runs as " +
                                       UserName(geteuid()) + "; mend it with: chown " +
                                       UserName(geteuid()) + " " + path);
  }
  return absl::OkStatus();
}

absl::Status CheckPublic(const std::string& path, const struct stat& about) {
  if ((about.st_mode & 022) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "certificate file " + path + " has mode " + Octal(about.st_mode) +
      ", so others can replace it; mend it with: chmod 0644 " + path);
}

absl::StatusOr<std::string> ReadBounded(int fd, const std::string& path) {
  std::string bytes;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("cannot read " + path, errno);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
    if (bytes.size() > kPemBytesMax) {
      return absl::InvalidArgumentError(path + " has more than " + std::to_string(kPemBytesMax) +
                                        " bytes; that is no key or certificate");
    }
  }
}

using StatCheck = absl::Status (*)(const std::string&, const struct stat&);

absl::StatusOr<std::string> ReadChecked(const std::string& path, int flags, StatCheck check) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags));
  if (!file.valid()) {
    if (errno == ELOOP) {
      return absl::PermissionDeniedError("private key " + path +
                                         " is a symbolic link; name the file itself");
    }
    return ErrnoError("cannot open " + path, errno);
  }
  struct stat about = {};
  if (fstat(file.get(), &about) != 0) return ErrnoError("cannot examine " + path, errno);
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError(path + " is not a regular file");
  if (absl::Status status = check(path, about); !status.ok()) return status;
  return ReadBounded(file.get(), path);
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status WriteAll(int fd, const std::string& bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return ErrnoError("cannot write " + path, errno);
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status Fill(int fd, const std::string& path, const std::string& bytes,
                  const WriteOptions& options) {
  if (absl::Status status = WriteAll(fd, bytes, path); !status.ok()) return status;
  if (options.owner.has_value() && fchown(fd, options.owner->user, options.owner->group) != 0) {
    return ErrnoError("cannot give " + path + " away", errno);
  }
  if (fchmod(fd, options.mode) != 0) return ErrnoError("cannot set the mode of " + path, errno);
  if (fsync(fd) != 0) return ErrnoError("cannot sync " + path, errno);
  return absl::OkStatus();
}

absl::Status Publish(const std::string& temporary, const std::string& path, bool overwrite) {
  const int result =
      overwrite ? rename(temporary.c_str(), path.c_str()) : link(temporary.c_str(), path.c_str());
  if (result == 0) return absl::OkStatus();
  if (errno == EEXIST) {
    return absl::AlreadyExistsError(path + " exists already; it was left as it is");
  }
  return ErrnoError("cannot write " + path, errno);
}

absl::Status SyncDirectory(const std::string& path) {
  const Descriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) {
    return ErrnoError("cannot sync the directory " + path, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  return ReadChecked(path, O_NOFOLLOW, &CheckSecret);
}

absl::StatusOr<std::string> ReadPublicFile(const std::string& path) {
  return ReadChecked(path, 0, &CheckPublic);
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& bytes,
                                 const WriteOptions& options) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));  // 0600 until Fill opens it up
  if (!file.valid()) return ErrnoError("cannot create a file beside " + path, errno);
  absl::Status status = Fill(file.get(), path, bytes, options);
  if (status.ok()) status = Publish(temporary, path, options.overwrite);
  // A published rename leaves nothing under the temporary name: ENOENT is then expected.
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT && status.ok()) {
    status = ErrnoError("cannot remove " + temporary, errno);
  }
  return status.ok() ? SyncDirectory(ParentOf(path)) : status;
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  constexpr mode_t kParentMode = 0755;
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const bool last = end == std::string::npos || end + 1 == path.size();
    if (mkdir(part.c_str(), last ? mode : kParentMode) == 0) {
      if (chmod(part.c_str(), last ? mode : kParentMode) != 0) {
        return ErrnoError("cannot set the mode of " + part, errno);
      }
    } else if (errno != EEXIST) {
      return ErrnoError("cannot make the directory " + part, errno);
    }
    if (last) break;
  }
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return ErrnoError("cannot examine " + path, errno);
  if (!S_ISDIR(about.st_mode)) return absl::InvalidArgumentError(path + " is not a directory");
  return absl::OkStatus();
}

absl::StatusOr<Owner> FindOwner(const std::string& user) {
  std::vector<char> buffer(16 * 1024);
  struct passwd entry = {};
  struct passwd* found = nullptr;
  if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return absl::NotFoundError("no user named " + user + " on this host");
  }
  return Owner{entry.pw_uid, entry.pw_gid};
}

}  // namespace causeway::security
