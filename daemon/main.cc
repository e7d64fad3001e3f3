// causewayd: reads the configuration, builds the daemon, serves until told to stop.
#include <grpc/support/log.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "absl/synchronization/mutex.h"
#include "daemon/config/parse.h"
#include "daemon/memory/allocator.h"
#include "daemon/observe/events.h"
#include "daemon/observe/log.h"
#include "daemon/run/daemon.h"
#include "daemon/run/version.h"

namespace {

namespace observe = causeway::observe;

// sysexits(3), as operators expect them.
enum Exit {
  kOk = 0,
  kUsage = 64,
  kUnavailable = 69,
  kBug = 70,
  kIo = 74,
  kPermission = 77,
  kConfig = 78
};

int ExitFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied:
      return kPermission;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
      return kConfig;
    case absl::StatusCode::kDataLoss:
      return kIo;
    case absl::StatusCode::kInternal:
      return kBug;
    default:
      return kUnavailable;
  }
}

// gRPC's own lines are about handshakes and sockets; what matters of them is logged by ours with
// names.
observe::Logger* network_log = nullptr;  // gRPC's hook takes no context

void RouteNetworkLog(observe::Logger* log) {
  network_log = log;
  gpr_set_log_function([](gpr_log_func_args* args) {
    network_log->Debug("grpc", {{"file", args->file}, {"line", args->line}}, args->message);
  });
}

}  // namespace

int main(int argc, char** argv) {
  causeway::memory::KeepFreedMemory();
  // Debian's Abseil looks for cycles at every lock, a twentieth of the processor time of a
  // transfer.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app{
      "Causeway's gateway: exchanges a cluster's parameter deltas and gradients with its peers."};
  std::string file = "/etc/causeway/causeway.yaml";
  app.add_option("--config", file, "Configuration file")->capture_default_str();
  app.set_version_flag("--version", std::string("causewayd ") + causeway::run::kVersion);
  app.footer(
      "Check a configuration with `causeway check-config FILE`; see how it does with `causeway "
      "status`.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }

  // Before any thread starts, so that all inherit it: the control loop takes these signals.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const causeway::config::ParseResult parsed = causeway::config::Parse(file);
  if (!parsed.ok()) {
    std::fputs(parsed.ErrorText().c_str(), stderr);
    if (parsed.read_errno == EACCES) return kPermission;
    return parsed.read_errno != 0 ? kIo : kConfig;
  }
  observe::LogOptions options;
  options.journal = observe::StandardErrorIsJournal();
  absl::StatusOr<observe::Level> level = observe::ParseLevel(parsed.config->log_level);
  if (level.ok()) options.level = *level;
  absl::StatusOr<observe::LogFormat> format = observe::ParseLogFormat(parsed.config->log_format);
  if (format.ok()) options.format = *format;
  observe::Logger log(options);
  for (const causeway::config::Diagnostic& warning : parsed.warnings) {
    log.Warning(observe::event::kConfigWarning, {{"line", warning.line}, {"key", warning.key}},
                warning.message);
  }
  RouteNetworkLog(&log);
  log.Info(observe::event::kDaemonStarting,
           {{"cluster", parsed.config->cluster}, {"version", causeway::run::kVersion}}, file);
  absl::StatusOr<std::unique_ptr<causeway::run::Daemon>> daemon =
      causeway::run::Daemon::Create(*parsed.config, file, &log);
  if (!daemon.ok()) {
    log.Error(observe::event::kDaemonFailed, {}, std::string(daemon.status().message()));
    return ExitFor(daemon.status());
  }
  const absl::Status served = (*daemon)->Serve();
  return served.ok() ? kOk : ExitFor(served);
}
