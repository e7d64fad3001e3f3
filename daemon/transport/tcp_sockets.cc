// Rejected: NETLINK_SOCK_DIAG (the hardened unit would have to allow AF_NETLINK) and gRPC's socket
// mutator (not a public interface).
#include "daemon/transport/tcp_sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"

namespace causeway::transport {
namespace {

constexpr int kDescriptorsMax = 65536;  // of one walk
constexpr int kBackingOff = 2;          // time-outs in a row

// gRPC's name of a peer's address; empty: not an internet address.
std::string NameOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

// 0: none.
int LocalPort(int descriptor) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

void ForEachConnection(
    const std::function<void(int descriptor, const std::string& remote)>& visit) {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  for (int count = 0; count < kDescriptorsMax; ++count) {
    const dirent* entry = readdir(folder);
    if (entry == nullptr) break;
    char* end = nullptr;
    const long descriptor = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || *end != '\0') continue;
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    if (getpeername(static_cast<int>(descriptor), reinterpret_cast<sockaddr*>(&address), &length) !=
        0) {
      continue;  // no socket, or not connected
    }
    const std::string remote = NameOf(address);
    if (!remote.empty()) visit(static_cast<int>(descriptor), remote);
  }
  closedir(folder);
}

}  // namespace

void TcpTotals::Add(const TcpTotals& other) {
  rtt_min = connections == 0 ? other.rtt_min : std::min(rtt_min, other.rtt_min);
  const uint64_t bytes = bytes_in_flight + other.bytes_in_flight;
  if (bytes > 0) {
    rtt_in_flight = (rtt_in_flight * static_cast<double>(bytes_in_flight) +
                     other.rtt_in_flight * static_cast<double>(other.bytes_in_flight)) /
                    static_cast<double>(bytes);
  }
  bytes_in_flight = bytes;
  segments_delivered += other.segments_delivered;
  bytes_delivered += other.bytes_delivered;
  bytes_acknowledged += other.bytes_acknowledged;
  bytes_received += other.bytes_received;
  connections += other.connections;
  in_flight += other.in_flight;
  backing_off += other.backing_off;
  segments_sent += other.segments_sent;
  segments_resent += other.segments_resent;
  bytes_unsent += other.bytes_unsent;
  delivery_bytes_per_s += other.delivery_bytes_per_s;
  send_buffer_limited = std::max(send_buffer_limited, other.send_buffer_limited);
  receive_limited = std::max(receive_limited, other.receive_limited);
}

std::map<std::string, TcpTotals> ReadTcp() {
  std::map<std::string, TcpTotals> all;
  ForEachConnection([&](int descriptor, const std::string& remote) {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
    TcpTotals one;
    one.connections = 1;
    one.segments_sent = info.tcpi_segs_out;
    one.segments_resent = info.tcpi_total_retrans;
    one.segments_delivered = info.tcpi_delivered;
    one.bytes_delivered = uint64_t{info.tcpi_delivered} * info.tcpi_snd_mss;
    one.bytes_acknowledged = info.tcpi_bytes_acked;
    one.bytes_received = info.tcpi_bytes_received;
    one.bytes_in_flight = uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss;
    if (info.tcpi_unacked > 0) {
      one.rtt_in_flight = absl::Microseconds(info.tcpi_rtt);
      one.in_flight = 1;
      one.backing_off = info.tcpi_retransmits >= kBackingOff ? 1 : 0;
    }
    one.bytes_unsent = info.tcpi_notsent_bytes;
    if (info.tcpi_delivery_rate_app_limited == 0)
      one.delivery_bytes_per_s = info.tcpi_delivery_rate;
    one.send_buffer_limited = absl::Microseconds(info.tcpi_sndbuf_limited);
    one.receive_limited = absl::Microseconds(info.tcpi_rwnd_limited);
    one.rtt_min = absl::Microseconds(info.tcpi_rtt);
    all[remote].Add(one);
  });
  return all;
}

void TcpSnapshot::Refresh(absl::Time now, absl::Duration age) {
  if (now - taken_at_ < age) return;
  taken_at_ = now;
  totals_ = ReadTcp();
}

TcpTotals TcpSnapshot::Of(const std::set<std::string>& remotes) const {
  TcpTotals totals;
  for (const std::string& remote : remotes) {
    auto found = totals_.find(remote);
    if (found != totals_.end()) totals.Add(found->second);
  }
  return totals;
}

void LimitRate(const std::set<std::string>& remotes, uint64_t bytes_per_s) {
  const uint64_t limit = bytes_per_s == 0 ? ~uint64_t{0} : bytes_per_s;
  ForEachConnection([&](int descriptor, const std::string& remote) {
    if (remotes.count(remote) == 0) return;
    // A connection that refuses it sends as its congestion control likes, as all would without
    // this.
    (void)setsockopt(descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof(limit));
  });
}

std::set<int> LocalPorts(const std::set<std::string>& remotes) {
  std::set<int> ports;
  ForEachConnection([&](int descriptor, const std::string& remote) {
    if (remotes.count(remote) != 0) ports.insert(LocalPort(descriptor));
  });
  return ports;
}

void ResetConnections(const std::set<std::string>& remotes, const std::set<int>& ports) {
  ForEachConnection([&](int descriptor, const std::string& remote) {
    if (remotes.count(remote) == 0 || ports.count(LocalPort(descriptor)) == 0) return;
    // Dissolves the connection and leaves the descriptor to its owner, who sees it as hung up.
    const sockaddr nobody{AF_UNSPEC, {}};
    (void)connect(descriptor, &nobody, sizeof(nobody));
  });
}

int LimitUnsent(const std::string& remote, int bytes) {
  int found = 0;
  ForEachConnection([&](int descriptor, const std::string& name) {
    if (name != remote) return;
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes)) == 0) ++found;
  });
  return found;
}

}  // namespace causeway::transport
