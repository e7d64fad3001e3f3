// wan_emulator: one thread that reads TUN devices in batches, keeps packets for as long as the
// emulated line would, and writes them to their destination. The line itself is network.h and
// pipe.h.
//
// Exit codes: 0 asked to end or the devices are gone, 64 usage, 77 permission, 70 anything else.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/wan/emulator/command.h"
#include "tests/wan/emulator/control_server.h"
#include "tests/wan/emulator/network.h"
#include "tests/wan/emulator/options.h"
#include "tests/wan/emulator/tun_device.h"

namespace causeway::wan_emulator {
namespace {

constexpr int kBatchPackets = 64;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kIdleWaitNs = kNsPerSecond;

int64_t NowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

class Emulator {
 public:
  Emulator(Network network, std::vector<TunDevice> devices)
      : network_(std::move(network)), devices_(std::move(devices)) {}

  absl::Status Start(const std::string& control_socket) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (epoll_ < 0 || signals_ < 0) return absl::ErrnoToStatus(errno, "set up the event loop");
    if (absl::Status status = Watch(signals_); !status.ok()) return status;
    for (const TunDevice& device : devices_) {
      if (absl::Status status = Watch(device.descriptor()); !status.ok()) return status;
    }
    return control_socket.empty() ? absl::OkStatus() : control_.Listen(control_socket, epoll_);
  }

  // Until asked to end or a device is gone.
  void Run() {
    while (!quit_) {
      Flush();
      if (!quit_) Wait();
    }
  }

 private:
  absl::Status Watch(int descriptor) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "watch a descriptor");
  }

  void Flush() {
    network_.Advance(NowNs(), [this](int site, const Packet& packet) {
      if (!devices_[static_cast<size_t>(site)].Write(packet).ok()) quit_ = true;
    });
  }

  void Wait() {
    const int64_t next = network_.NextEventNs();
    const int64_t wait =
        next == kNever ? kIdleWaitNs : std::clamp<int64_t>(next - NowNs(), 0, kIdleWaitNs);
    const timespec timeout{wait / kNsPerSecond, wait % kNsPerSecond};
    epoll_event events[kBatchPackets];
    const int count = epoll_pwait2(epoll_, events, kBatchPackets, &timeout, nullptr);
    for (int i = 0; i < count; ++i) Handle(events[i].data.fd);
  }

  void Handle(int descriptor) {
    if (descriptor == signals_) {
      quit_ = true;
      return;
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].descriptor() == descriptor) return ReadBatch(static_cast<int>(i));
    }
    control_.Serve(descriptor, [this](std::string_view line) {
      const int64_t now_ns = NowNs();
      Flush();
      Reply reply = RunCommand(line, network_, now_ns);
      quit_ = quit_ || reply.quit;
      return reply.json;
    });
  }

  void ReadBatch(int site) {
    TunDevice& device = devices_[static_cast<size_t>(site)];
    for (int i = 0; i < kBatchPackets; ++i) {
      absl::StatusOr<std::optional<Packet>> packet = device.Read();
      if (!packet.ok()) {
        quit_ = true;
        return;
      }
      if (!packet->has_value()) return;
      network_.Enter(site, **std::move(packet), NowNs());
    }
  }

  Network network_;
  std::vector<TunDevice> devices_;
  ControlServer control_;
  int epoll_ = -1;
  int signals_ = -1;
  bool quit_ = false;
};

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "wan_emulator: %s\n", std::string(status.message()).c_str());
  return absl::IsPermissionDenied(status) ? 77 : code;
}

int Main(int argc, char** argv) {
  absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) return Fail(options.status(), 64);
  if (options->help) {
    std::fputs(Usage().c_str(), stdout);
    return 0;
  }
  if (options->die_with_parent) {
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) return 0;
  }
  std::vector<Network::Site> sites;
  std::vector<TunDevice> devices;
  for (const SiteOptions& site : options->sites) {
    absl::StatusOr<TunDevice> device =
        TunDevice::Open(site.network_namespace, site.device, options->offload);
    if (!device.ok()) return Fail(device.status(), 70);
    devices.push_back(*std::move(device));
    sites.push_back(site.site);
  }
  Network network(options->topology, std::move(sites), options->seed);
  for (const std::string& settings : options->settings) {
    absl::Status status = ApplySettings(settings, network);
    if (!status.ok()) return Fail(status, 64);
  }
  Emulator emulator(std::move(network), std::move(devices));
  if (absl::Status status = emulator.Start(options->control_socket); !status.ok()) {
    return Fail(status, 70);
  }
  std::puts("{\"ready\":true}");
  std::fflush(stdout);
  emulator.Run();
  return 0;
}

}  // namespace
}  // namespace causeway::wan_emulator

int main(int argc, char** argv) { return causeway::wan_emulator::Main(argc, argv); }
