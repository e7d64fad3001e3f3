// A TUN device in a network namespace, used from outside of it.
//
// The device lives as long as this object and its namespace, whichever ends first. Non-blocking.
// Confined to one thread.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_TUN_DEVICE_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_TUN_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/wan/emulator/packet.h"

namespace causeway::wan_emulator {

class TunDevice {
 public:
  // `offload`: let the kernel pass large TCP packets. Permission denied without CAP_NET_ADMIN.
  static absl::StatusOr<TunDevice> Open(const std::string& network_namespace,
                                        const std::string& device, bool offload);
  TunDevice(TunDevice&& other) noexcept;
  TunDevice(const TunDevice&) = delete;
  TunDevice& operator=(const TunDevice&) = delete;
  ~TunDevice();

  int descriptor() const { return descriptor_; }

  // One packet; nothing when none waits or when what came is not IP. Unavailable once the device is
  // gone.
  absl::StatusOr<std::optional<Packet>> Read();
  absl::Status Write(const Packet& packet);

  // Packets that Read() threw away because they were no IP.
  int64_t malformed_packets() const { return malformed_packets_; }
  // Packets that the device refused, such as while it is set down.
  int64_t refused_packets() const { return refused_packets_; }

 private:
  TunDevice(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  int descriptor_ = -1;
  std::string name_;
  int64_t malformed_packets_ = 0;
  int64_t refused_packets_ = 0;
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_TUN_DEVICE_H_
