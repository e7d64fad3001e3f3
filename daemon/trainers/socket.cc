// See socket.h.
#include "daemon/trainers/socket.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; older kernels answer ENOPROTOOPT
#endif

namespace causeway::trainers {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kGroupBufferMax = 1 << 20;

absl::Status Failed(const std::string& path, absl::string_view what, int error) {
  const std::string text = absl::StrCat("trainer socket ", path, ": ", what, ": ", strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(text, "; run as a user that may write there"));
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(
          absl::StrCat(text, "; its directory does not exist: create it or set trainers.socket"));
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("trainer socket '", path, "': a path has 1 to ",
                                                   sizeof(address.sun_path) - 1,
                                                   " bytes; set trainers.socket to a shorter one"));
  }
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("trainer socket: the path holds a zero byte");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Makes room for a socket at `path`: nothing there, or a socket at which nobody answers.
absl::Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Failed(path, "cannot look at it", errno);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("trainer socket ", path,
                     ": something that is no socket is there; move it away "
                     "or set trainers.socket to another path"));
  }
  loop::Descriptor probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return Failed(path, "socket", errno);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN || errno == EPROTOTYPE) {  // answers, is busy, or is of another type
    return absl::AlreadyExistsError(absl::StrCat("trainer socket ", path,
                                                 ": another process answers there; stop it or set "
                                                 "trainers.socket to another path"));
  }
  if (errno != ECONNREFUSED) return Failed(path, "cannot tell whether somebody answers", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failed(path, "cannot remove the stale socket", errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<gid_t> GroupId(const std::string& group) {
  std::vector<char> buffer(1024);
  while (true) {
    struct group entry {};
    struct group* found = nullptr;
    const int error = getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE && buffer.size() < kGroupBufferMax) {
      buffer.resize(2 * buffer.size());
      continue;
    }
    if (found != nullptr) return entry.gr_gid;
    return absl::NotFoundError(
        absl::StrCat("trainer socket: there is no group '", group,
                     "'; create it (systemd-sysusers) or set trainers.group"));
  }
}

absl::StatusOr<loop::Descriptor> OpenPidfd(int socket, pid_t pid) {
  int number = -1;
  socklen_t size = sizeof(number);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &number, &size) == 0) {
    fcntl(number, F_SETFD, FD_CLOEXEC);
    return loop::Descriptor(number);
  }
  if (pid <= 0) return absl::NotFoundError("the process is not visible here");
  number = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (number < 0) return absl::NotFoundError(absl::StrCat("pidfd_open: ", strerror(errno)));
  return loop::Descriptor(number);
}

}  // namespace

absl::StatusOr<loop::Descriptor> ListenAt(const std::string& path, const std::string& group,
                                          uint32_t mode) {
  absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  std::optional<gid_t> group_id;
  if (!group.empty()) {
    absl::StatusOr<gid_t> id = GroupId(group);
    if (!id.ok()) return id.status();
    group_id = *id;
  }
  absl::Status room = RemoveStale(path, *address);
  if (!room.ok()) return room;

  loop::Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return Failed(path, "socket", errno);
  // The file takes the socket's own mode when it is bound: nobody else connects before chmod below.
  if (fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0) return Failed(path, "fchmod", errno);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return Failed(path, "bind", errno);
  }
  const auto undo = [&](absl::string_view what) {
    absl::Status status = Failed(path, what, errno);
    unlink(path.c_str());
    return status;
  };
  if (group_id && chown(path.c_str(), static_cast<uid_t>(-1), *group_id) != 0) {
    return undo(
        absl::StrCat("cannot give it to group ", group, " (the daemon's user must be a member)"));
  }
  if (chmod(path.c_str(), mode & 0777) != 0) return undo("chmod");
  if (listen(listener.get(), kBacklog) != 0) return undo("listen");
  return listener;
}

absl::StatusOr<FileId> IdentifyFile(const std::string& path) {
  struct stat file {};
  if (lstat(path.c_str(), &file) != 0) return Failed(path, "cannot look at it", errno);
  return FileId{file.st_dev, file.st_ino};
}

absl::StatusOr<Peer> IdentifyPeer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return absl::InternalError(absl::StrCat("trainer socket: SO_PEERCRED: ", strerror(errno)));
  }
  Peer peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  absl::StatusOr<loop::Descriptor> process = OpenPidfd(socket, peer.pid);
  if (process.ok()) peer.process = *std::move(process);
  return peer;
}

bool ProcessIsDead(int process_descriptor) {
  pollfd entry{process_descriptor, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

Transfer Receive(int socket, Datagram& datagram) {
  datagram.descriptors.clear();
  datagram.bytes.resize(local::kMessageBytesMax);
  iovec part{datagram.bytes.data(), datagram.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Transfer::kWouldBlock : Transfer::kClosed;
  }
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      datagram.descriptors.emplace_back(number);
    }
  }
  if (received == 0)
    return Transfer::kClosed;  // end of file; an empty datagram is no message either
  datagram.bytes.resize(static_cast<size_t>(received));
  datagram.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  return Transfer::kDone;
}

Transfer Send(int socket, absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors) {
  assert(descriptors.size() <= kDescriptorsMax);
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return Transfer::kDone;
  // Anything but a full queue is final: such an error does not end when the socket becomes
  // writable.
  const bool later = sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  return later ? Transfer::kWouldBlock : Transfer::kClosed;
}

absl::StatusOr<loop::Descriptor> SealedCopy(const std::string& name,
                                            absl::Span<const uint8_t> bytes) {
  loop::Descriptor memfd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat(name, ": memfd_create: ", strerror(errno)));
  }
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(memfd.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::ResourceExhaustedError(absl::StrCat(name, ": write: ", strerror(errno)));
    }
    done += static_cast<size_t>(written);
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::InternalError(absl::StrCat(name, ": sealing: ", strerror(errno)));
  }
  return memfd;
}

absl::StatusOr<std::vector<uint8_t>> ReadMemfd(int descriptor, uint64_t size) {
  if (fcntl(descriptor, F_GET_SEALS) < 0) {
    return absl::InvalidArgumentError("the descriptor is no memfd");
  }
  struct stat file {};
  if (fstat(descriptor, &file) != 0 || static_cast<uint64_t>(file.st_size) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memfd has ", file.st_size, " bytes; expected ", size));
  }
  std::vector<uint8_t> bytes(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(descriptor, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::InvalidArgumentError("the memfd became shorter while it was read");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace causeway::trainers
