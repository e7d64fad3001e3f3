// `causeway run ...`: what an operator does to a run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/checkpoint/snapshots.h"
#include "daemon/checkpoint/state_lock.h"
#include "daemon/cli/admin_client.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/json.h"
#include "daemon/config/parse.h"

namespace causeway::cli {
namespace {

using Request = admin::v1::ChangeRunRequest;

constexpr char kConfigFile[] = "/etc/causeway/causeway.yaml";

struct Arguments {
  std::string socket = kAdminSocket;
  std::string run;
  std::vector<std::string> voters;
  std::string primary;
  bool approve = false;
  std::string label;
  std::string config = kConfigFile;
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
     "Go back to a labelled snapshot, or on from the newest state that is left",
     "--to LABEL undoes the rounds after a snapshot that trainers have labelled: end the gateways "
     "of\n"
     "all of the run's clusters, say it on each of them, start them again. Trainers take the "
     "run's\n"
     "values from there, momentum included.\n\n"
     "--approve is asked for when every gateway that knew the newest rounds has lost them and "
     "some\n"
     "voters are away that might still have them. Bringing those back undoes nothing.\n\n"
     "Examples:\n"
     "  sudo -u causeway causeway run rollback demo --to before-decay\n"
     "  causeway run rollback demo --approve"},
};

// On the disk of a gateway that does not run: all of them have to forget the later rounds before
// the first one asks the others what they hold.
absl::StatusOr<std::string> Restore(const Arguments& arguments) {
  config::ParseOptions options;
  options.check_files = false;
  const config::ParseResult result = config::Parse(arguments.config, options);
  if (!result.ok()) return absl::InvalidArgumentError(result.ErrorText());
  const std::vector<config::Run>& runs = result.config->runs;
  if (std::none_of(runs.begin(), runs.end(),
                   [&](const config::Run& run) { return run.name == arguments.run; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("no run '", arguments.run, "' in ", arguments.config));
  }
  if (AdminClient::Connect(result.config->admin_socket).ok()) {
    return absl::FailedPreconditionError(
        "the gateway runs; end those of all of the run's clusters first (systemctl stop "
        "causewayd)");
  }
  const absl::StatusOr<std::unique_ptr<checkpoint::StateLock>> lock =
      checkpoint::StateLock::Take(result.config->state_directory);
  if (!lock.ok()) return lock.status();
  const std::string state = absl::StrCat(result.config->state_directory, "/", arguments.run);
  absl::StatusOr<size_t> fragments =
      checkpoint::Snapshots(state + ".snapshots")
          .Restore(arguments.label, checkpoint::Store(state + ".state"));
  if (!fragments.ok()) return fragments.status();
  return absl::StrCat("run '", arguments.run, "' will go on from snapshot '", arguments.label,
                      "' (", *fragments, " fragments); say the same on its other clusters, then ",
                      "start all gateways. What was undone lies in ", state, ".state.set-aside");
}

absl::StatusOr<std::string> Change(const Verb& verb, const Arguments& arguments) {
  if (!arguments.label.empty()) return Restore(arguments);
  if (verb.verb == Request::APPROVE_ROLLBACK && !arguments.approve) {
    return absl::InvalidArgumentError(
        "this undoes committed rounds for good; say --approve if you mean it, or name a snapshot "
        "with --to");
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
    command->add_option("--to", arguments->label, "The label of a snapshot")
        ->excludes(
            command->add_flag("--approve", arguments->approve, "Yes: undo what nobody here has"));
    command->add_option("--config", arguments->config, "The gateway's, which names its state")
        ->capture_default_str();
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
