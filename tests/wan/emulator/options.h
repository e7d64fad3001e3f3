// The emulator's command line.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_OPTIONS_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/wan/emulator/network.h"

namespace causeway::wan_emulator {

inline constexpr int kSitesMax = 64;

struct SiteOptions {
  Network::Site site;
  std::string network_namespace;
  std::string device = "wan0";
};

struct Options {
  bool help = false;
  Topology topology = Topology::kMesh;
  std::vector<SiteOptions> sites;
  std::vector<std::string> settings;  // as after the control command `set`, applied in order
  std::string control_socket;
  bool offload = true;
  bool die_with_parent = false;
  uint64_t seed = 1;
};

absl::StatusOr<Options> ParseOptions(int argc, char** argv);
std::string Usage();

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_OPTIONS_H_
