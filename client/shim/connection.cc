#include "client/shim/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace causeway::client {
namespace {

// The gateway reads its sockets at once; one that lets its queue fill for this long does not live.
constexpr int kSendWaitMs = 2000;

std::string ConnectText(const std::string& path, int error_number) {
  std::string text = "cannot reach the gateway at socket " + path + ": ";
  switch (error_number) {
    case ENOENT:
      return text +
             "no such file; is causewayd running on this host, and is its trainers.socket this "
             "path? "
             "(argument socket, or CAUSEWAY_SOCKET)";
    case ECONNREFUSED:
      return text + "nobody listens; is causewayd running?";
    case EACCES:
      return text + "permission denied; this user must be in the group that trainers.group names";
    case EPROTOTYPE:
      return text + "it is another kind of socket, not causewayd's trainer socket";
    default:
      return WithErrno("cannot reach the gateway at socket " + path, error_number);
  }
}

}  // namespace

Status Connection::Connect(const std::string& path) {
  Close();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Status(CW_ARGUMENT, "socket path '" + path + "' must have 1 to " +
                                   std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Status(CW_MEMORY, WithErrno("cannot make a socket", errno));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Status(CW_GATEWAY_LOST, ConnectText(path, errno));
  }
  socket_ = std::move(socket);
  return Status();
}

uint32_t Connection::PeerPid() const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  const int failed = getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return failed == 0 && peer.pid > 0 ? static_cast<uint32_t>(peer.pid) : 0;
}

bool Connection::Send(const void* bytes, size_t size, int attached) {
  if (!socket_) return false;
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attached >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &attached, sizeof(int));
  }
  for (bool waited = false;;) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(size)) return true;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && !waited) {
      waited = true;
      pollfd writable{socket_.get(), POLLOUT, 0};
      poll(&writable, 1, kSendWaitMs);
      continue;
    }
    Close();
    return false;
  }
}

Connection::Receipt Connection::Receive(Datagram& datagram) {
  datagram.descriptors.clear();
  datagram.size = 0;
  if (!socket_) return Receipt::kClosed;
  iovec part{datagram.bytes, sizeof(datagram.bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received;
  do {
    received = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Receipt::kNothing;
    Close();
    return Receipt::kClosed;
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
  if (received == 0) {
    Close();
    return Receipt::kClosed;
  }
  datagram.size = static_cast<size_t>(received);
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Receipt::kMalformed;
  return Receipt::kMessage;
}

}  // namespace causeway::client
