// See memory_file.h. Files in a private directory were rejected: keys would be at rest a second
// time, and two files cannot be swapped in one step.
#include "security/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace causeway::security {
namespace {

absl::Status Fault(const std::string& what) {
  return absl::UnavailableError(what + ": " + std::strerror(errno));
}

bool WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

absl::StatusOr<int> MakeSealed(const std::string& name, const std::string& bytes,
                               int64_t modified_s) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Fault("cannot make a memory file");
  const struct timespec times[2] = {{static_cast<time_t>(modified_s), 0},
                                    {static_cast<time_t>(modified_s), 0}};
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (!WriteAll(fd, bytes) || fchmod(fd, 0600) != 0 || futimens(fd, times) != 0 ||
      fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    absl::Status status = Fault("cannot fill a memory file");
    close(fd);
    return status;
  }
  return fd;
}

}  // namespace

absl::StatusOr<MemoryFile> MemoryFile::Create(const std::string& name, const std::string& bytes,
                                              int64_t modified_s) {
  absl::StatusOr<int> fd = MakeSealed(name, bytes, modified_s);
  if (!fd.ok()) return fd.status();
  MemoryFile file(name, *fd);
  if (access(file.path().c_str(), R_OK) != 0) {
    return Fault("cannot reach " + file.path() + " (is /proc mounted?)");
  }
  return file;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : name_(std::move(other.name_)), fd_(std::exchange(other.fd_, -1)) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status MemoryFile::Replace(const std::string& bytes, int64_t modified_s) {
  absl::StatusOr<int> fresh = MakeSealed(name_, bytes, modified_s);
  if (!fresh.ok()) return fresh.status();
  const int swapped = dup3(*fresh, fd_, O_CLOEXEC);
  const absl::Status status = swapped < 0 ? Fault("cannot swap a memory file") : absl::OkStatus();
  close(*fresh);
  return status;
}

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(fd_); }

}  // namespace causeway::security
