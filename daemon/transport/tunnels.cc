#include "daemon/transport/tunnels.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/limits.h"

namespace causeway::transport {
namespace {

constexpr char kScheme[] = "unix-abstract:";
constexpr int kBacklog = 64;
constexpr absl::Duration kNoDescriptorPause = absl::Milliseconds(200);

std::string Target(uint64_t incarnation, const std::string& what) {
  return absl::StrCat(kScheme, "causeway-", getpid(), "-", absl::Hex(incarnation), "-", what);
}

// Of an abstract socket.
socklen_t Fill(const std::string& target, sockaddr_un& address) {
  const std::string name = target.substr(sizeof(kScheme) - 1);
  address = {};
  address.sun_family = AF_UNIX;
  assert(name.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

// The other end is this very process, whatever else runs on this machine.
bool FromHere(int descriptor) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.pid == getpid();
}

}  // namespace

std::string TunnelEntranceTarget(uint64_t incarnation, size_t peer_index) {
  return Target(incarnation, absl::StrCat("peer", peer_index));
}

std::string TunnelServerTarget(uint64_t incarnation) { return Target(incarnation, "server"); }

Tunnels::~Tunnels() {
  StopWaiter();
  for (const std::unique_ptr<Entrance>& entrance : entrances_) close(entrance->listener);
}

absl::Status Tunnels::Start() {
  if (absl::Status started = waiter_.Start(); !started.ok()) return started;
  for (const PeerConfig& peer : shared_.config.peers) {
    if (peer.relay.empty()) continue;
    if (absl::Status opened = OpenEntrance(peer); !opened.ok()) return opened;
  }
  return absl::OkStatus();
}

absl::Status Tunnels::OpenEntrance(const PeerConfig& peer) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return absl::ErrnoToStatus(errno, "tunnels: no descriptor left");
  auto entrance = std::make_unique<Entrance>();
  entrance->peer = &peer;
  entrance->listener = listener;
  Entrance* const opened = entrance.get();
  entrances_.push_back(std::move(entrance));
  sockaddr_un address;
  const socklen_t length = Fill(peer.address, address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("tunnels: cannot listen on ", peer.address));
  }
  opened->watch = waiter_.Add(listener, [this, opened](uint32_t) { OnCaller(*opened); });
  waiter_.Arm(opened->watch, EPOLLIN);
  return absl::OkStatus();
}

const PeerConfig* Tunnels::FindPeer(const std::string& cluster) const {
  const auto& peers = shared_.config.peers;
  const auto found = std::find_if(peers.begin(), peers.end(),
                                  [&](const PeerConfig& peer) { return peer.cluster == cluster; });
  return found == peers.end() ? nullptr : &*found;
}

void Tunnels::OnCaller(const Entrance& entrance) {
  const int descriptor = accept4(entrance.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor >= 0) {
    if (shared_.draining || !FromHere(descriptor)) {
      close(descriptor);
    } else {
      Dig(descriptor, *entrance.peer,
          {shared_.config.cluster, entrance.peer->cluster, /*tunnel=*/0}, MonotonicNow());
    }
  } else if (errno == EMFILE || errno == ENFILE) {
    errors_[entrance.peer->cluster] = "no descriptor left";
    shared_.poller.At(MonotonicNow() + kNoDescriptorPause,
                      [this, watch = entrance.watch] { waiter_.Arm(watch, EPOLLIN); });
    return;
  }
  waiter_.Arm(entrance.watch, EPOLLIN);
}

std::string Tunnels::LastError(const std::string& cluster) const {
  auto found = errors_.find(cluster);
  return found == errors_.end() ? "" : found->second;
}

absl::Status Tunnels::OnOffer(const std::string& relay, uint64_t tunnel, const std::string& from,
                              absl::Time now) {
  const PeerConfig* far = FindPeer(from);
  if (far == nullptr || far->relay != relay) {
    return absl::PermissionDeniedError(
        absl::StrCat("cluster ", relay, " offers a tunnel from cluster ", from.substr(0, 64),
                     ", which this gateway's configuration does not reach through it"));
  }
  if (shared_.draining || tunnel == 0) return absl::UnavailableError("no tunnel now");
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "tunnels: no descriptor left");
  sockaddr_un address;
  const socklen_t length = Fill(TunnelServerTarget(shared_.config.incarnation), address);
  if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    const absl::Status failed = absl::ErrnoToStatus(errno, "tunnels: this gateway's own server");
    close(descriptor);
    return failed;
  }
  Dig(descriptor, *far, {shared_.config.cluster, "", tunnel}, now);
  return absl::OkStatus();
}

void Tunnels::Dig(int descriptor, const PeerConfig& far, TunnelHelloFrame hello, absl::Time now) {
  const auto here = std::count_if(ends_.begin(), ends_.end(), [&](const auto& end) {
    return end.second.second == far.cluster;
  });
  if (here >= kTunnelsPerPairMax) {
    close(descriptor);
    return;
  }
  auto end = std::make_unique<TunnelEnd>(
      waiter_, descriptor, std::move(hello), [this](TunnelEnd* over, const absl::Status& reason) {
        auto found = ends_.find(over);
        if (found == ends_.end()) return;
        errors_[found->second.second] = std::string(reason.message());
        shared_.Bury(std::move(found->second.first));
        ends_.erase(found);
      });
  TunnelEnd* const begun = end.get();
  ends_[begun] = {std::move(end), far.cluster};
  begun->Begin(DialStream(shared_.streams, shared_.poller,
                          shared_.Dial(*FindPeer(far.relay), Use::kBulk), kTunnelMethod, nullptr),
               now + shared_.times.hello_timeout);
}

void Tunnels::End() {
  for (auto& [key, end] : ends_) {
    end.first->Stop();
    shared_.Bury(std::move(end.first));
  }
  ends_.clear();
  for (const std::unique_ptr<Entrance>& entrance : entrances_) waiter_.Remove(entrance->watch);
}

void Tunnels::StopWaiter() { waiter_.Stop(); }

}  // namespace causeway::transport
