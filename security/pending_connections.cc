// See pending_connections.h. Accepting connections ourselves would give exact addresses, but still
// no link between a socket and gRPC's verifier; sock_diag is forbidden to the hardened unit.
#include "security/pending_connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

namespace causeway::security {
namespace {

struct Endpoint {
  std::string address;  // without brackets; IPv4-mapped ones as IPv4
  uint16_t port = 0;
};

std::optional<Endpoint> ReadEndpoint(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  Endpoint endpoint;
  if (storage.ss_family == AF_INET) {
    sockaddr_in address;
    std::memcpy(&address, &storage, sizeof address);
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    endpoint.port = ntohs(address.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 address;
    std::memcpy(&address, &storage, sizeof address);
    if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
      inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], text, sizeof text);
    } else {
      inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
    }
    endpoint.port = ntohs(address.sin6_port);
  } else {
    return std::nullopt;
  }
  endpoint.address = text;
  return endpoint;
}

std::string Format(const Endpoint& endpoint) {
  const bool six = endpoint.address.find(':') != std::string::npos;
  return (six ? "[" + endpoint.address + "]" : endpoint.address) + ":" +
         std::to_string(endpoint.port);
}

// The peer of an accepted socket on `port`; none when the descriptor is anything else.
std::optional<std::string> AcceptedPeer(int fd, uint16_t port) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return std::nullopt;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return std::nullopt;
  const std::optional<Endpoint> local = ReadEndpoint(own);
  const std::optional<Endpoint> remote = ReadEndpoint(peer);
  if (!local || !remote || local->port != port) return std::nullopt;
  return Format(*remote);
}

// gRPC writes "ipv4:1.2.3.4:5", "ipv6:%5B2001:db8::1%5D:5"; both to the form of Format.
std::string Normalised(std::string address) {
  const size_t scheme = address.find(':');
  if (scheme != std::string::npos) address.erase(0, scheme + 1);
  for (const auto& [code, plain] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    const size_t at = address.find(code);
    if (at != std::string::npos) address.replace(at, std::strlen(code), plain);
  }
  constexpr char kMapped[] = "[::ffff:";
  const size_t close = address.find(']');
  if (address.compare(0, std::strlen(kMapped), kMapped) == 0 && close != std::string::npos &&
      address.find('.') < close) {
    address = address.substr(std::strlen(kMapped), close - std::strlen(kMapped)) +
              address.substr(close + 1);
  }
  return address;
}

}  // namespace

void PendingConnections::SetPort(uint16_t port) {
  const absl::MutexLock lock(&mutex_);
  port_ = port;
}

void PendingConnections::Authenticated(const std::string& address) {
  const absl::MutexLock lock(&mutex_);
  // Only past the limit are closed connections looked for; if all are open, one more stays unknown.
  if (authenticated_.size() >= kAuthenticatedMax) Scan();
  if (authenticated_.size() < kAuthenticatedMax) authenticated_.insert(Normalised(address));
}

std::string PendingConnections::Describe(int64_t now_s) {
  const absl::MutexLock lock(&mutex_);
  if (now_s != second_) {
    second_ = now_s;
    scans_ = 0;
  }
  if (port_ == 0 || ++scans_ > kScansPerSecondMax) return "unknown";
  const std::set<std::string> pending = Scan();
  if (pending.empty()) return "unknown";
  std::string text = pending.size() == 1 ? "" : "one of ";
  size_t named = 0;
  for (const std::string& address : pending) {
    if (named == kNamedMax)
      return text + " and " + std::to_string(pending.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + address;
  }
  return text;
}

std::set<std::string> PendingConnections::Scan() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
  if (directory == nullptr) return {};
  std::set<std::string> pending, alive;
  size_t examined = 0;
  const dirent* entry = nullptr;
  while (examined < kDescriptorsMax && (entry = readdir(directory.get())) != nullptr) {
    if (entry->d_name[0] == '.') continue;
    ++examined;
    const std::optional<std::string> peer = AcceptedPeer(std::atoi(entry->d_name), port_);
    if (!peer) continue;
    (authenticated_.count(*peer) != 0 ? alive : pending).insert(*peer);
  }
  if (examined < kDescriptorsMax)
    authenticated_ = std::move(alive);  // a whole scan forgets the gone
  return pending;
}

}  // namespace causeway::security
