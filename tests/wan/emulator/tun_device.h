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

  // One packet; nothing when none waits or when what came is not IP and is thrown away. Unavailable
  // once the device is gone.
  absl::StatusOr<std::optional<Packet>> Read();
  // What the device refuses, such as while it is set down, is lost as on a line.
  absl::Status Write(const Packet& packet);

 private:
  TunDevice(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  int descriptor_ = -1;
  std::string name_;
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_TUN_DEVICE_H_
