// `causeway version`.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "daemon/cli/environment.h"
#include "daemon/cli/json.h"

namespace causeway::cli {

void AddVersionCommand(CLI::App& app, const Environment& environment) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  causeway version --json");
  command->callback([json, environment] {
    if (!*json) {
      *environment.out << "causeway " CAUSEWAY_VERSION "\n";
      return;
    }
    JsonWriter writer;
    writer.BeginObject()
        .Key("version")
        .String(CAUSEWAY_VERSION)
        .Key("compiler")
        .String(__VERSION__);
    *environment.out << writer.EndObject().text() << "\n";
  });
}

}  // namespace causeway::cli
