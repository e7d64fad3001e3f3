// `causeway run ...`: what an operator does to a run.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "daemon/cli/admin_client.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/json.h"

namespace causeway::cli {
namespace {

struct Arguments {
  std::string socket = kAdminSocket;
  std::string run;
  bool json = false;
};

absl::StatusOr<std::string> Forget(const Arguments& arguments) {
  absl::StatusOr<AdminClient> client = AdminClient::Connect(arguments.socket);
  if (!client.ok()) return client.status();
  return client->ForgetRun(arguments.run);
}

void AddForget(CLI::App* run, const Environment& environment) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = run->add_subcommand(
      "forget", "Delete a run's state on this gateway: outer state, residual, records");
  command->add_option("name", arguments->run, "The run's name")->required();
  command->add_option("--socket", arguments->socket, "The daemon's admin.socket")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "The other clusters keep theirs; this gateway fetches the run's state from them when its\n"
      "trainers join again. Forgetting it on every gateway ends the run for good.\n\n"
      "Examples:\n"
      "  causeway run forget demo");
  command->callback([arguments, environment] {
    const absl::StatusOr<std::string> done = Forget(*arguments);
    if (!done.ok()) {
      *environment.err << "causeway run forget: " << std::string(done.status().message()) << "\n";
      throw CLI::RuntimeError(ExitCodeOf(done.status()));
    }
    if (!arguments->json) {
      *environment.out << *done << "\n";
      return;
    }
    JsonWriter json;
    json.BeginObject().Key("run").String(arguments->run).Key("message").String(*done).EndObject();
    *environment.out << json.text() << "\n";
  });
}

}  // namespace

void AddRunCommands(CLI::App& app, const Environment& environment) {
  CLI::App* run = app.add_subcommand("run", "A run on this gateway");
  run->require_subcommand(1);
  AddForget(run, environment);
}

}  // namespace causeway::cli
