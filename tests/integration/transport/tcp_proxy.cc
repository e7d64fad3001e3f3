#include "tests/integration/transport/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace causeway::transport {
namespace {

constexpr size_t kPipeBytes = 256 << 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// One direction: bytes read and not yet written.
struct Pipe {
  std::vector<char> data = std::vector<char>(kPipeBytes);
  size_t begin = 0;
  size_t end = 0;

  bool empty() const { return begin == end; }

  // False when the connection is over.
  bool Fill(int from) {
    begin = 0;
    const ssize_t got = recv(from, data.data(), data.size(), MSG_DONTWAIT);
    end = got > 0 ? static_cast<size_t>(got) : 0;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }
  bool Drain(int to) {
    const ssize_t put = send(to, data.data() + begin, end - begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) begin += static_cast<size_t>(put);
    return put >= 0 || errno == EAGAIN || errno == EINTR;
  }
};

}  // namespace

struct TcpProxy::Connection {
  ~Connection() {
    // A reset, as from a dead host's router.
    const linger reset{1, 0};
    for (int side : {client, server}) {
      setsockopt(side, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      close(side);
    }
  }
  int client = -1;
  int server = -1;
  Pipe up;
  Pipe down;
  uint64_t id = 0;
  uint64_t bytes = 0;
  bool frozen = false;
};

TcpProxy::TcpProxy(int port) : target_port_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(listen(listener_, 64) == 0);
  socklen_t length = sizeof(address);
  REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stop_ = true;
  thread_.join();
  close(listener_);
}

std::string TcpProxy::address() const { return absl::StrCat("127.0.0.1:", port_); }

TcpProxy::Connection* TcpProxy::Find(uint64_t id) {
  for (const auto& connection : connections_) {
    if (connection->id == id) return connection.get();
  }
  return nullptr;
}

std::vector<uint64_t> TcpProxy::Connections() {
  absl::MutexLock lock(&mutex_);
  std::vector<uint64_t> ids;
  for (const auto& connection : connections_) ids.push_back(connection->id);
  return ids;
}

uint64_t TcpProxy::Bytes(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const Connection* connection = Find(id);
  return connection == nullptr ? 0 : connection->bytes;
}

bool TcpProxy::Cut(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if ((*it)->id != id) continue;
    connections_.erase(it);
    return true;
  }
  return false;
}

void TcpProxy::Freeze(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  if (Connection* connection = Find(id)) connection->frozen = true;
}

void TcpProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  auto connection = std::make_unique<Connection>();
  connection->id = next_id_++;
  connection->client = client;
  connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(target_port_);
  if (refuse_ || connect(connection->server, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) != 0) {
    return;
  }
  fcntl(connection->server, F_SETFL, O_NONBLOCK);
  connections_.push_back(std::move(connection));
}

bool TcpProxy::Serve(Connection& connection, short client_events, short server_events) {
  const auto step = [&](Pipe& pipe, int from, short from_events, int to) {
    if (pipe.empty() && (from_events & (POLLIN | POLLHUP | POLLERR)) != 0 && !pipe.Fill(from))
      return false;
    const size_t before = pipe.begin;
    if (!pipe.empty() && !pipe.Drain(to)) return false;
    connection.bytes += pipe.begin - before;
    return true;
  };
  return step(connection.up, connection.client, client_events, connection.server) &&
         step(connection.down, connection.server, server_events, connection.client);
}

void TcpProxy::Run() {
  while (!stop_) {
    std::vector<pollfd> polls = {{listener_, POLLIN, 0}};
    std::vector<uint64_t> ids;
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& connection : connections_) {
        const bool frozen = frozen_ || connection->frozen;
        const auto events = [&](const Pipe& in, const Pipe& out) -> short {
          return frozen
                     ? 0
                     : static_cast<short>((in.empty() ? POLLIN : 0) | (out.empty() ? 0 : POLLOUT));
        };
        ids.push_back(connection->id);
        polls.push_back({connection->client, events(connection->up, connection->down), 0});
        polls.push_back({connection->server, events(connection->down, connection->up), 0});
      }
    }
    poll(polls.data(), polls.size(), 5);
    absl::MutexLock lock(&mutex_);
    if ((polls[0].revents & POLLIN) != 0) Accept();
    // Connections may have been cut meanwhile: find each by its id.
    for (size_t p = 1; p + 1 < polls.size(); p += 2) {
      for (auto it = connections_.begin(); it != connections_.end(); ++it) {
        Connection& connection = **it;
        if (connection.id != ids[p / 2]) continue;
        const bool frozen = frozen_ || connection.frozen;
        if (!frozen && !Serve(connection, polls[p].revents, polls[p + 1].revents))
          connections_.erase(it);
        break;
      }
    }
  }
}

}  // namespace causeway::transport
