// `causeway`, the operator's command: parses arguments, mounts the commands, maps exit codes.
//
// One thread. CLI11's own exit codes (100 and up) become 64; --help and --version exit 0.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <ctime>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/pki/pki_commands.h"
#include "daemon/config/suggest.h"

namespace causeway::cli {
namespace {

int64_t NowSeconds() { return static_cast<int64_t>(std::time(nullptr)); }

void Mount(CLI::App& app) {
  const Environment environment{&std::cout, &std::cerr, NowSeconds, isatty(STDOUT_FILENO) == 1};
  app.require_subcommand(1);
  app.set_version_flag("--version", "causeway " CAUSEWAY_VERSION);
  AddCheckConfigCommand(app, environment);
  AddStatusCommand(app, environment);
  AddRunCommands(app, environment);
  AddPkiCommands(app, {environment.out, environment.err, environment.now_s});
  AddPlanCommand(app, environment);
  AddVersionCommand(app, environment);
  app.footer(
      "Exit status: 0 done, 64 wrong arguments, 69 no daemon answers, 70 a bug, 74 input or "
      "output,\n"
      "77 permission, 78 configuration. Each command has its own --help with examples.");
}

// CLI11 only says that a subcommand is required.
bool ReportUnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (word.empty() || word.front() == '-' ||
      std::find(names.begin(), names.end(), word) != names.end()) {
    return false;
  }
  std::cerr << "causeway: there is no command '" << word << "'" << config::DidYouMean(word, names)
            << "\nRun with --help for more information.\n";
  return true;
}

int Run(int argc, char** argv) {
  CLI::App app("Joins clusters over a wide-area network to train one model: the operator's command",
               "causeway");
  Mount(app);
  if (argc > 1 && ReportUnknownCommand(app, argv[1])) return kUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {  // a command failed and has said why
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kOk : kUsage;
  }
  std::cout.flush();
  return std::cout ? kOk : kInputOutput;
}

}  // namespace
}  // namespace causeway::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an exit code, not a death
  try {
    return causeway::cli::Run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "causeway: " << error.what() << "\n";
    return causeway::cli::kBug;
  }
}
