// See control_server.h.
#include "tests/wan/emulator/control_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace causeway::wan_emulator {
namespace {

absl::Status Watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return absl::ErrnoToStatus(errno, "watch a control connection");
  }
  return absl::OkStatus();
}

}  // namespace

ControlServer::~ControlServer() {
  for (const auto& [descriptor, line] : connections_) close(descriptor);
  if (listener_ >= 0) {
    close(listener_);
    unlink(path_.c_str());
  }
}

absl::Status ControlServer::Listen(const std::string& path, int epoll) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("control socket path is too long: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return absl::ErrnoToStatus(errno, "make the control socket");
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, static_cast<int>(kConnectionsMax)) != 0) {
    const int error = errno;
    close(listener);
    return absl::ErrnoToStatus(error, absl::StrCat("listen at ", path));
  }
  listener_ = listener;
  path_ = path;
  epoll_ = epoll;
  return Watch(epoll_, listener_);
}

bool ControlServer::Serve(int descriptor, const Handler& handler) {
  if (descriptor == listener_) {
    Accept();
    return true;
  }
  if (connections_.count(descriptor) == 0) return false;
  ReadFrom(descriptor, handler);
  return true;
}

void ControlServer::Accept() {
  const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) return;  // the client left again
  if (connections_.size() >= kConnectionsMax || !Watch(epoll_, descriptor).ok()) {
    close(descriptor);
    return;
  }
  connections_[descriptor];
}

void ControlServer::ReadFrom(int descriptor, const Handler& handler) {
  char buffer[kLineBytesMax];
  const ssize_t bytes = read(descriptor, buffer, sizeof(buffer));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) return Close(descriptor);
  std::string& line = connections_[descriptor];
  line.append(buffer, static_cast<size_t>(bytes));
  for (size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1)) {
    const std::string answer = handler(std::string_view(line).substr(0, end)) + "\n";
    if (send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(answer.size())) {
      return Close(descriptor);
    }
  }
  if (line.size() > kLineBytesMax) Close(descriptor);
}

void ControlServer::Close(int descriptor) {
  close(descriptor);  // leaves epoll by itself
  connections_.erase(descriptor);
}

}  // namespace causeway::wan_emulator
