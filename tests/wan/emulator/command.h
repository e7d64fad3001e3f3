// The words of the emulator: units, settings and control commands.
//
// `set FROM>TO key=value ...` (keys: rate, delay, jitter, loss, queue, mtu-hole, dark), `stats`,
// `quit`. Pure functions; any thread.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_COMMAND_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_COMMAND_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/wan/emulator/network.h"
#include "tests/wan/emulator/pipe.h"

namespace causeway::wan_emulator {

// "100mbit" -> 1e8; bit, kbit, mbit, gbit; 0 or "unlimited" for no limit.
absl::StatusOr<double> ParseRate(std::string_view text);
// "50ms" -> 50e6; ns, us, ms, s.
absl::StatusOr<int64_t> ParseDuration(std::string_view text);
// "1MiB" -> 1048576; plain numbers, KiB, MiB.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
absl::StatusOr<Address> ParseAddress(std::string_view text);

// Applies "FROM>TO key=value ..." to the network: all of it, or nothing and an error.
absl::Status ApplySettings(std::string_view text, Network& network);

struct Reply {
  std::string json;  // one line, without its end
  bool quit = false;
};
Reply RunCommand(std::string_view line, Network& network, int64_t now_ns);

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_COMMAND_H_
