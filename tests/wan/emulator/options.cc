// See options.h.
#include "tests/wan/emulator/options.h"

#include <getopt.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/wan/emulator/command.h"

namespace causeway::wan_emulator {
namespace {

constexpr char kNameCharacters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

// name=paris,netns=/run/netns/x,device=wan0,address=10.0.0.1,address=fd00::1
absl::StatusOr<SiteOptions> ParseSite(const std::string& text) {
  SiteOptions result;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto& [key, value] = pair;
    if (key == "name" && !value.empty() &&
        value.find_first_not_of(kNameCharacters) == std::string::npos && value != "core") {
      result.site.name = value;
    } else if (key == "netns") {
      result.network_namespace = value;
    } else if (key == "device") {
      result.device = value;
    } else if (key == "address") {
      absl::StatusOr<Address> address = ParseAddress(value);
      if (!address.ok()) return address.status();
      result.site.addresses.push_back(*address);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part, "' in --site: name=[a-z0-9-_]+, netns=PATH, device=NAME, address=IP"));
    }
  }
  if (result.site.name.empty() || result.network_namespace.empty() ||
      result.site.addresses.empty()) {
    return absl::InvalidArgumentError("--site needs name, netns and at least one address");
  }
  return result;
}

absl::Status Apply(int option, const std::string& value, Options& options) {
  switch (option) {
    case 's': {
      absl::StatusOr<SiteOptions> site = ParseSite(value);
      if (site.ok()) options.sites.push_back(*std::move(site));
      return site.status();
    }
    case 't':
      if (value != "mesh" && value != "star") {
        return absl::InvalidArgumentError("--topology is mesh or star");
      }
      options.topology = value == "mesh" ? Topology::kMesh : Topology::kStar;
      return absl::OkStatus();
    case 'e':
      options.settings.push_back(value);
      return absl::OkStatus();
    case 'c':
      options.control_socket = value;
      return absl::OkStatus();
    case 'n':
      options.offload = false;
      return absl::OkStatus();
    case 'p':
      options.die_with_parent = true;
      return absl::OkStatus();
    case 'r':
      if (absl::SimpleAtoi(value, &options.seed)) return absl::OkStatus();
      return absl::InvalidArgumentError("--seed is a whole number");
    case 'h':
      options.help = true;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("unknown option; --help lists them");
  }
}

}  // namespace

std::string Usage() {
  return R"(wan_emulator: forwards IP packets between TUN devices of network namespaces, like a slow line.

  --site name=NAME,netns=PATH,address=IP[,address=IP][,device=wan0]   one for each site, at least two
  --topology mesh|star       a line between each two sites (default), or each site to a core and back
  --set 'FROM>TO key=value ...'   rate=100mbit delay=50ms jitter=1ms loss=0.1% queue=4MiB mtu-hole=1400 dark=1
                             FROM, TO: a site, * or, in a star, core; each key per direction
  --control PATH             unix socket: `set ...`, `stats`, `quit`, a line each; answers are JSON lines
  --no-offload               one read for each wire packet: slower, and the device's own counters are wire bytes
  --die-with-parent          ends when the starting process does
  --seed N                   of loss and jitter (default 1)

Prints one JSON line when it forwards. Ends on SIGTERM, SIGINT, `quit`, or when a device vanishes.
)";
}

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  static constexpr option kOptions[] = {{"site", required_argument, nullptr, 's'},
                                        {"topology", required_argument, nullptr, 't'},
                                        {"set", required_argument, nullptr, 'e'},
                                        {"control", required_argument, nullptr, 'c'},
                                        {"no-offload", no_argument, nullptr, 'n'},
                                        {"die-with-parent", no_argument, nullptr, 'p'},
                                        {"seed", required_argument, nullptr, 'r'},
                                        {"help", no_argument, nullptr, 'h'},
                                        {nullptr, 0, nullptr, 0}};
  Options options;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) {
    absl::Status status = Apply(c, optarg ? optarg : "", options);
    if (!status.ok()) return status;
  }
  if (optind < argc) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument ", argv[optind]));
  }
  if (options.help) return options;
  if (options.sites.size() < 2 || options.sites.size() > kSitesMax) {
    return absl::InvalidArgumentError(absl::StrCat("2 to ", kSitesMax, " --site are needed"));
  }
  return options;
}

}  // namespace causeway::wan_emulator
