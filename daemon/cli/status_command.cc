// `causeway status`.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "daemon/cli/admin_client.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/status_report.h"

namespace causeway::cli {
namespace {

constexpr double kIntervalSecondsMin = 0.1;
constexpr double kIntervalSecondsMax = 3600;
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

struct Arguments {
  std::string socket = kAdminSocket;
  bool json = false;
  bool watch = false;
  double interval_s = 1;
};

absl::StatusOr<std::string> Report(const Arguments& arguments, const Environment& environment) {
  absl::StatusOr<AdminClient> client = AdminClient::Connect(arguments.socket);
  if (!client.ok()) return client.status();
  const absl::StatusOr<admin::v1::StatusReply> status = client->Status();
  if (!status.ok()) return status.status();
  return arguments.json ? FormatStatusJson(*status) : FormatStatus(*status, environment.now_s());
}

// Until interrupted or nobody reads. A daemon that goes away is worth watching, too.
void Watch(const Arguments& arguments, const Environment& environment) {
  while (*environment.out) {
    const absl::StatusOr<std::string> report = Report(arguments, environment);
    if (environment.terminal && !arguments.json) *environment.out << kClearScreen;
    if (report.ok()) {
      *environment.out << *report << std::flush;
    } else {
      *environment.err << "causeway status: " << std::string(report.status().message()) << "\n";
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.interval_s));
  }
}

void Run(const Arguments& arguments, const Environment& environment) {
  if (arguments.watch) {
    Watch(arguments, environment);
    return;
  }
  const absl::StatusOr<std::string> report = Report(arguments, environment);
  if (!report.ok()) {
    *environment.err << "causeway status: " << std::string(report.status().message()) << "\n";
    throw CLI::RuntimeError(ExitCodeOf(report.status()));
  }
  *environment.out << *report;
}

}  // namespace

void AddStatusCommand(CLI::App& app, const Environment& environment) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "status", "What the daemon does: peers, runs, rounds, who is waited for, memory");
  command->add_option("--socket", arguments->socket, "The daemon's admin.socket")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON, one line a report");
  command->add_flag("--watch", arguments->watch, "Repeat until interrupted");
  command->add_option("--interval", arguments->interval_s, "Seconds between two reports of --watch")
      ->capture_default_str()
      ->check(CLI::Range(kIntervalSecondsMin, kIntervalSecondsMax));
  command->footer(
      "Examples:\n"
      "  causeway status\n"
      "  causeway status --watch --interval 2\n"
      "  causeway status --json | jq '.runs[] | {name, state, awaited}'");
  command->callback([arguments, environment] { Run(*arguments, environment); });
}

}  // namespace causeway::cli
