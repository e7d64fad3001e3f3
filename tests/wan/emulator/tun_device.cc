// See tun_device.h.
#include "tests/wan/emulator/tun_device.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
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

}  // namespace

absl::StatusOr<TunDevice> TunDevice::Open(const std::string& network_namespace,
                                          const std::string& device, bool offload) {
  if (device.empty() || device.size() >= IFNAMSIZ) {
    return absl::InvalidArgumentError(absl::StrCat("'", device, "' is no device name"));
  }
  const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (home < 0) return SystemError("open /proc/self/ns/net");
  absl::Cleanup close_home = [home] { close(home); };
  const int there = open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
  if (there < 0) return SystemError(absl::StrCat("open ", network_namespace));
  absl::Cleanup close_there = [there] { close(there); };
  if (setns(there, CLONE_NEWNET) != 0) {
    return SystemError(absl::StrCat("enter network namespace ", network_namespace));
  }
  absl::Cleanup go_home = [home] {
    if (setns(home, CLONE_NEWNET) != 0) _exit(70);  // nothing else may run in the wrong namespace
  };

  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) return SystemError("open /dev/net/tun");
  TunDevice result(tun, device);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  if (ioctl(tun, TUNSETIFF, &request) != 0) {
    return SystemError(absl::StrCat("make TUN device ", device));
  }
  const unsigned int features =
      offload ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : TUN_F_CSUM;
  if (ioctl(tun, TUNSETOFFLOAD, features) != 0) {
    return SystemError(absl::StrCat("set offload of TUN device ", device));
  }
  return result;
}

TunDevice::TunDevice(TunDevice&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      malformed_packets_(other.malformed_packets_),
      refused_packets_(other.refused_packets_) {}

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
  std::optional<Packet> packet = Packet::Parse(
      offload, {buffer + sizeof(offload), static_cast<size_t>(bytes) - sizeof(offload)});
  if (!packet) ++malformed_packets_;
  return packet;
}

absl::Status TunDevice::Write(const Packet& packet) {
  OffloadHeader offload = packet.offload();
  iovec parts[2] = {{&offload, sizeof(offload)},
                    {const_cast<uint8_t*>(packet.ip().data()), packet.ip().size()}};
  if (writev(descriptor_, parts, 2) >= 0) return absl::OkStatus();
  if (errno == EBADFD) return absl::UnavailableError(absl::StrCat("device ", name_, " is gone"));
  ++refused_packets_;
  return absl::OkStatus();
}

}  // namespace causeway::wan_emulator
