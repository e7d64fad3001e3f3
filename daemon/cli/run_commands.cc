// `causeway run ...`: what an operator does to a run.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/cli/admin_client.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/json.h"

namespace causeway::cli {
namespace {

using Request = admin::v1::ChangeRunRequest;

struct Arguments {
  std::string socket = kAdminSocket;
  std::string run;
  std::vector<std::string> voters;
  std::string primary;
  bool approve = false;
  bool json = false;
};

struct Verb {
  const char* name;
  Request::Verb verb;
  const char* help;
  const char* footer;
};

constexpr Verb kVerbs[] = {
    {"forget", Request::FORGET,
     "Delete a run's state on this gateway: outer state, residual, records",
     "The other clusters keep theirs; this gateway fetches the run's state from them when its\n"
     "trainers join again. Forgetting it on every gateway ends the run for good.\n\n"
     "Examples:\n"
     "  causeway run forget demo"},
    {"stop", Request::STOP, "Let the run stand still, on all clusters at one round",
     "Any cluster's gateway may be told. Trainers wait; `causeway run start` lets them go on.\n\n"
     "Examples:\n"
     "  causeway run stop demo"},
    {"start", Request::START, "Let a stopped run go on",
     "Examples:\n"
     "  causeway run start demo"},
    {"leave", Request::LEAVE, "Take this cluster out of the run for good",
     "It leaves once the others can go on without it, and is no voter any more.\n\n"
     "Examples:\n"
     "  causeway run leave demo"},
    {"voters", Request::VOTERS, "Change which clusters decide about membership",
     "Only the gateway that leads the run does this; `causeway status` names it.\n\n"
     "Examples:\n"
     "  causeway run voters demo paris tokyo --primary paris"},
    {"rollback", Request::APPROVE_ROLLBACK,
     "Let the run go on from the newest state that is left, undoing later rounds",
     "Asked for when every gateway that knew the newest rounds has lost them and some voters are\n"
     "away that might still have them. Bringing those back undoes nothing.\n\n"
     "Examples:\n"
     "  causeway run rollback demo --approve"},
};

absl::StatusOr<std::string> Change(const Verb& verb, const Arguments& arguments) {
  if (verb.verb == Request::APPROVE_ROLLBACK && !arguments.approve) {
    return absl::InvalidArgumentError(
        "this undoes committed rounds for good; say --approve if you mean it");
  }
  Request request;
  request.set_run(arguments.run);
  request.set_verb(verb.verb);
  for (const std::string& voter : arguments.voters) request.add_voters(voter);
  request.set_primary(arguments.primary);
  absl::StatusOr<AdminClient> client = AdminClient::Connect(arguments.socket);
  if (!client.ok()) return client.status();
  return client->ChangeRun(request);
}

void Add(CLI::App* run, const Verb& verb, const Environment& environment) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = run->add_subcommand(verb.name, verb.help);
  command->add_option("name", arguments->run, "The run's name")->required();
  if (verb.verb == Request::VOTERS) {
    command->add_option("voters", arguments->voters, "The clusters that vote")->required();
    command->add_option("--primary", arguments->primary,
                        "The one that decides where exactly half is left");
  }
  if (verb.verb == Request::APPROVE_ROLLBACK) {
    command->add_flag("--approve", arguments->approve, "Yes: undo what nobody here has");
  }
  command->add_option("--socket", arguments->socket, "The daemon's admin.socket")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(verb.footer);
  command->callback([arguments, environment, verb] {
    const absl::StatusOr<std::string> done = Change(verb, *arguments);
    if (!done.ok()) {
      *environment.err << "causeway run " << verb.name << ": "
                       << std::string(done.status().message()) << "\n";
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
  for (const Verb& verb : kVerbs) Add(run, verb, environment);
}

}  // namespace causeway::cli
