#include "daemon/admin/socket.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace causeway::admin {
namespace {

absl::Status Failure(const std::string& what) {
  const int error = errno;
  const std::string message = absl::StrCat("admin socket: ", what, ": ", strerror(error));
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::FailedPreconditionError(message);
}

// True when a process accepts connections on the path.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return false;
  const bool answered =
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN;  // its queue is full: it lives
  close(descriptor);
  return answered;
}

absl::StatusOr<gid_t> FindGroup(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  group entry;
  group* found = nullptr;
  (void)getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return entry.gr_gid;
  return absl::NotFoundError(absl::StrCat("admin.group: the group '", name,
                                          "' does not exist; make it with: groupadd ", "--system ",
                                          name));
}

}  // namespace

absl::StatusOr<PublishedSocket> PublishedSocket::Prepare(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "admin socket: ", path, " exists and is not a socket; it will not be replaced"));
    }
    if (SomebodyListens(path)) {
      return absl::AlreadyExistsError(absl::StrCat("admin socket: another process listens on ",
                                                   path, "; is a daemon already running?"));
    }
  }
  const size_t slash = path.rfind('/');
  std::string directory =
      absl::StrCat(slash == std::string::npos ? "" : path.substr(0, slash + 1), ".aXXXXXX");
  if (mkdtemp(directory.data()) == nullptr) return Failure(absl::StrCat("beside ", path));
  PublishedSocket prepared(path, directory);
  if (prepared.private_path_.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("admin socket: the path ", path, " is too long for a socket"));
  }
  return prepared;
}

PublishedSocket::PublishedSocket(std::string path, std::string directory)
    : path_(std::move(path)),
      directory_(std::move(directory)),
      private_path_(absl::StrCat(directory_, "/s")) {}

PublishedSocket::PublishedSocket(PublishedSocket&& other) noexcept
    : path_(std::move(other.path_)),
      directory_(std::exchange(other.directory_, "")),
      private_path_(std::move(other.private_path_)),
      published_(other.published_),
      device_(other.device_),
      inode_(other.inode_) {}

PublishedSocket::~PublishedSocket() {
  if (directory_.empty()) return;
  struct stat info;
  const bool ours = published_ && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
                    info.st_ino == inode_;
  if (ours) (void)unlink(path_.c_str());
  (void)unlink(private_path_.c_str());
  (void)rmdir(directory_.c_str());
}

absl::Status PublishedSocket::Publish(mode_t mode, const std::string& group) {
  if (!group.empty()) {
    const absl::StatusOr<gid_t> id = FindGroup(group);
    if (!id.ok()) return id.status();
    if (chown(private_path_.c_str(), static_cast<uid_t>(-1), *id) != 0) {
      return Failure(absl::StrCat("giving it to the group '", group,
                                  "' (this process's user must be a member)"));
    }
  }
  if (chmod(private_path_.c_str(), mode) != 0) return Failure("setting its mode");
  struct stat info;
  if (lstat(private_path_.c_str(), &info) != 0) return Failure(private_path_);
  if (rename(private_path_.c_str(), path_.c_str()) != 0) return Failure(path_);
  (void)rmdir(directory_.c_str());  // nothing is left behind by a process that is killed
  device_ = info.st_dev;
  inode_ = info.st_ino;
  published_ = true;
  return absl::OkStatus();
}

}  // namespace causeway::admin
