#include "daemon/config/files.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace causeway::config {
namespace {

std::string Quoted(const std::string& path) { return absl::StrCat("'", path, "'"); }

absl::Status FromErrno(const std::string& path, int error) {
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(Quoted(path), " does not exist"));
  return absl::UnknownError(absl::StrCat(Quoted(path), ": ", strerror(error)));
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status CheckDirectory(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return FromErrno(path, errno);
    return absl::NotFoundError(absl::StrCat("the directory ", Quoted(path), " does not exist"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(Quoted(path), " is not a directory"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReadableFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FromErrno(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(Quoted(path), " is not a regular file"));
  }
  if (access(path.c_str(), R_OK) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(Quoted(path), " cannot be read by this user (uid ", geteuid(), ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckKeyFile(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return FromErrno(path, errno);
  if (S_ISLNK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(path), " is a symbolic link; name the private key's file itself"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(Quoted(path), " is not a regular file"));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("'%s' has mode %04o, so others than its owner can reach the private key; "
                        "mend it with: chmod 0600 %s",
                        path, info.st_mode & 07777, path));
  }
  if (info.st_uid != geteuid() && geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(Quoted(path), " belongs to uid ", info.st_uid, ", not to this user (uid ",
                     geteuid(), "); mend it with: chown ", geteuid(), " ", path));
  }
  return CheckReadableFile(path);
}

absl::Status CheckSocketPath(const std::string& path) {
  // A few bytes stay free for the names that a server gives a socket before it is ready.
  constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 8;
  if (path.size() > kPathBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a socket's path has at most ", kPathBytesMax,
                                                   " bytes, this one ", path.size()));
  }
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(path), " exists and is not a socket; it will not be replaced"));
  }
  return absl::OkStatus();
}

absl::Status CheckParentDirectory(const std::string& path) {
  return CheckDirectory(ParentOf(path));
}

absl::Status CheckStateDirectory(const std::string& path) {
  const absl::Status status = CheckDirectory(path);
  if (!absl::IsNotFound(status)) return status;
  if (CheckParentDirectory(path).ok()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(status.message(), "; make it with: install -d -m 0700 ", path));
}

absl::Status CheckGroup(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  group entry;
  group* found = nullptr;
  const int error = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return absl::OkStatus();
  if (error != 0 && error != ENOENT) return FromErrno(name, error);
  return absl::NotFoundError(absl::StrCat(
      "the group ", Quoted(name), " does not exist; make it with: groupadd --system ", name));
}

}  // namespace causeway::config
