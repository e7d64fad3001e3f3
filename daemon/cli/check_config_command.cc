// `causeway check-config`.
#include <errno.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/cli/check_report.h"
#include "daemon/cli/credential_check.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/model_size.h"
#include "daemon/cli/table.h"
#include "daemon/config/parse.h"
#include "daemon/config/scalars.h"

namespace causeway::cli {
namespace {

constexpr char kConfigFile[] = "/etc/causeway/causeway.yaml";

struct Arguments {
  std::string file = kConfigFile;
  std::optional<uint64_t> parameters;
  bool json = false;
  bool no_files = false;
};

ExitCode CodeOf(const config::ParseResult& result) {
  if (result.ok()) return kOk;
  if (result.read_errno == EACCES) return kPermission;
  return result.read_errno != 0 ? kInputOutput : kConfiguration;
}

// Asked for a size: it has to fit.
void CheckFits(const Arguments& arguments, config::ParseResult* result) {
  if (!result->ok() || !arguments.parameters.has_value()) return;
  const uint64_t total = TotalBytes(*result->config, *arguments.parameters);
  const int64_t budget = result->config->memory_bytes;
  if (total <= static_cast<uint64_t>(budget)) return;
  result->errors.push_back(
      {0, 0, "memory",
       absl::StrCat("runs of ", FormatCount(*arguments.parameters), " parameters take ",
                    config::FormatSizeBytes(static_cast<int64_t>(total)), ", the budget is ",
                    config::FormatSizeBytes(budget), "; raise memory or run less at once")});
}

void Run(const Arguments& arguments, const Environment& environment) {
  config::ParseOptions options;
  options.check_files = !arguments.no_files;
  config::ParseResult result = config::Parse(arguments.file, options);
  if (options.check_files) CheckCredentials(environment.now_s(), &result);
  CheckFits(arguments, &result);
  if (arguments.json) {
    *environment.out << FormatCheckJson(result, arguments.parameters);
  } else {
    *environment.err << result.WarningText() << result.ErrorText();
    if (result.ok()) *environment.out << FormatCheck(result, arguments.parameters);
  }
  const ExitCode code = result.errors.empty() ? CodeOf(result)
                        : result.ok()         ? kConfiguration
                                              : CodeOf(result);
  if (code != kOk) throw CLI::RuntimeError(code);
}

}  // namespace

void AddCheckConfigCommand(CLI::App& app, const Environment& environment) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "check-config", "Check a configuration; print its time-outs and memory needs");
  command->add_option("file", arguments->file, "The configuration")->capture_default_str();
  AddParameters(command, &arguments->parameters,
                "Size of the model, such as 1.3e9: fail when the runs would not fit the memory "
                "budget");
  command->add_flag("--no-files", arguments->no_files,
                    "Do not look at the files and groups that it names (another machine's)");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Exit status: 0 valid, 78 errors (all of them are printed), 74 or 77 the file cannot be "
      "read.\n"
      "\n"
      "Examples:\n"
      "  causeway check-config\n"
      "  sudo -u causeway causeway check-config /etc/causeway/causeway.yaml --parameters "
      "3.5e8\n"
      "  causeway check-config draft.yaml --no-files --json | jq '.errors'");
  command->callback([arguments, environment] { Run(*arguments, environment); });
}

}  // namespace causeway::cli
