// See tun_device.h. The device is made here and moved: one opened inside the namespace would keep
// it alive.
#include "tests/wan/emulator/tun_device.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace causeway::wan_emulator {
namespace {

absl::Status SystemError(const std::string& what) {
  const int error = errno;
  return absl::ErrnoToStatus(error, what);
}

// An rtnetlink request that moves a device into a namespace and renames it there.
struct MoveRequest {
  nlmsghdr header;
  ifinfomsg link;
  rtattr namespace_attribute;
  int32_t namespace_descriptor;
  rtattr name_attribute;
  char name[IFNAMSIZ];
};
static_assert(sizeof(MoveRequest) == sizeof(nlmsghdr) + sizeof(ifinfomsg) + 8 + 4 + IFNAMSIZ,
              "netlink attributes follow each other without gaps");

absl::Status Move(const std::string& device, const std::string& new_name, int network_namespace) {
  MoveRequest request{};
  request.header = {sizeof(request), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0};
  request.link.ifi_family = AF_UNSPEC;
  request.link.ifi_index = static_cast<int>(if_nametoindex(device.c_str()));
  request.namespace_attribute = {RTA_LENGTH(sizeof(int32_t)), IFLA_NET_NS_FD};
  request.namespace_descriptor = network_namespace;
  request.name_attribute = {RTA_LENGTH(IFNAMSIZ), IFLA_IFNAME};
  std::memcpy(request.name, new_name.c_str(), new_name.size());

  const int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (netlink < 0) return SystemError("open a netlink socket");
  absl::Cleanup close_netlink = [netlink] { close(netlink); };
  struct {
    nlmsghdr header;
    nlmsgerr error;
  } answer{};
  if (send(netlink, &request, sizeof(request), 0) != sizeof(request) ||
      recv(netlink, &answer, sizeof(answer), MSG_TRUNC) < static_cast<ssize_t>(sizeof(answer))) {
    return SystemError("talk to netlink");
  }
  if (answer.error.error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(-answer.error.error, absl::StrCat("move a TUN device to ", new_name));
}

}  // namespace

absl::StatusOr<TunDevice> TunDevice::Open(const std::string& network_namespace,
                                          const std::string& device, bool offload) {
  if (device.empty() || device.size() >= IFNAMSIZ) {
    return absl::InvalidArgumentError(absl::StrCat("'", device, "' is no device name"));
  }
  const int there = open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0) return SystemError(absl::StrCat("open ", network_namespace));
  absl::Cleanup close_there = [there] { close(there); };

  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) return SystemError("open /dev/net/tun");
  TunDevice result(tun, device);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, "cwtun%d", IFNAMSIZ - 1);  // the kernel finds a free number
  if (ioctl(tun, TUNSETIFF, &request) != 0) {
    return SystemError(absl::StrCat("make TUN device ", device));
  }
  const unsigned int features =
      offload ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : TUN_F_CSUM;
  if (ioctl(tun, TUNSETOFFLOAD, features) != 0) {
    return SystemError(absl::StrCat("set offload of TUN device ", device));
  }
  if (absl::Status status = Move(request.ifr_name, device, there); !status.ok()) return status;
  return result;
}

TunDevice::TunDevice(TunDevice&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

TunDevice::~TunDevice() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<std::optional<Packet>> TunDevice::Read() {
  alignas(OffloadHeader) uint8_t buffer[kPacketBytesMax];
  const ssize_t bytes = read(descriptor_, buffer, sizeof(buffer));
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    return absl::UnavailableError(absl::StrCat("device ", name_, " is gone: ", strerror(errno)));
  }
  OffloadHeader offload;
  if (static_cast<size_t>(bytes) < sizeof(offload)) {
    return absl::UnavailableError(absl::StrCat("device ", name_, " gave a short read"));
  }
  std::memcpy(&offload, buffer, sizeof(offload));
  return Packet::Parse(offload,
                       {buffer + sizeof(offload), static_cast<size_t>(bytes) - sizeof(offload)});
}

absl::Status TunDevice::Write(const Packet& packet) {
  OffloadHeader offload = packet.offload();
  iovec parts[2] = {{&offload, sizeof(offload)},
                    {const_cast<uint8_t*>(packet.ip().data()), packet.ip().size()}};
  if (writev(descriptor_, parts, 2) >= 0) return absl::OkStatus();
  if (errno == EBADFD) return absl::UnavailableError(absl::StrCat("device ", name_, " is gone"));
  return absl::OkStatus();
}

}  // namespace causeway::wan_emulator
