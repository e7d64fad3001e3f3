// `causeway plan`.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/cli/environment.h"
#include "daemon/cli/exit_codes.h"
#include "daemon/cli/model_size.h"
#include "daemon/cli/plan_report.h"
#include "daemon/config/scalars.h"

namespace causeway::cli {
namespace {

constexpr int kClustersMax = 64;

struct Arguments {
  std::optional<uint64_t> parameters;
  double step_seconds = 0;
  std::vector<std::string> rates;
  std::string rtt = "80ms";
  std::optional<int> clusters;
  std::vector<uint32_t> local_steps = PlanQuestion{}.local_steps;
  uint32_t fragments = 1;
  bool json = false;
};

[[noreturn]] void Wrong(const Environment& environment, const std::string& text) {
  *environment.err << "causeway plan: " << text << "\n";
  throw CLI::RuntimeError(kUsage);
}

PlanQuestion QuestionOf(const Arguments& arguments, const Environment& environment) {
  PlanQuestion question;
  question.parameters = *arguments.parameters;
  question.step_seconds = arguments.step_seconds;
  question.local_steps = arguments.local_steps;
  question.fragments = arguments.fragments;
  const absl::StatusOr<int64_t> rtt = config::ParseDurationMs(arguments.rtt);
  if (!rtt.ok()) Wrong(environment, absl::StrCat("--rtt: ", rtt.status().message()));
  question.rtt_seconds = static_cast<double>(*rtt) / 1e3;
  for (const std::string& text : arguments.rates) {
    const absl::StatusOr<int64_t> bits = config::ParseRateBits(text);
    if (!bits.ok()) Wrong(environment, absl::StrCat("--rate: ", bits.status().message()));
    if (*bits <= 0) Wrong(environment, "--rate: must be above 0");
    question.bytes_per_second.push_back(static_cast<double>(*bits) / 8);
  }
  std::vector<double>& rates = question.bytes_per_second;
  const auto clusters =
      static_cast<size_t>(arguments.clusters.value_or(std::max(2, static_cast<int>(rates.size()))));
  if (rates.size() == 1) rates.assign(clusters, rates.front());
  if (rates.size() != clusters) {
    Wrong(environment, absl::StrCat("--rate: ", rates.size(), " rates for ", clusters,
                                    " clusters; give one for all, or one for each"));
  }
  return question;
}

void Run(const Arguments& arguments, const Environment& environment) {
  const PlanQuestion question = QuestionOf(arguments, environment);
  const std::vector<PlanRow> rows = PlanRows(question);
  *environment.out << (arguments.json ? FormatPlanJson(question, rows)
                                      : FormatPlan(question, rows));
}

}  // namespace

void AddPlanCommand(CLI::App& app, const Environment& environment) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "plan", "What exchanges would cost, and which codec and H would hide them");
  AddParameters(command, &arguments->parameters, "Size of the model, such as 1.3e9")->required();
  command->add_option("--step-time", arguments->step_seconds, "Seconds of one local step")
      ->required()
      ->check(CLI::Range(1e-6, 1e6));
  command
      ->add_option("--rate", arguments->rates,
                   "Of a cluster's line, such as 500mbit; one for all or one for each cluster")
      ->required()
      ->delimiter(',')
      ->expected(1, kClustersMax);
  command->add_option("--rtt", arguments->rtt, "Round trip of the longest path")
      ->capture_default_str();
  command->add_option("--clusters", arguments->clusters, "How many; default 2, or one a rate")
      ->check(CLI::Range(2, kClustersMax));
  command->add_option("--local-steps", arguments->local_steps, "H, one or several")
      ->delimiter(',')
      ->capture_default_str()
      ->expected(1, static_cast<int>(kLocalStepsListMax))
      ->check(CLI::Range(uint32_t{1}, kLocalStepsMax));
  command->add_option("--fragments", arguments->fragments, "Parts that the model goes in")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Needs no daemon. `causeway status` shows the rates and plans of a run.\n"
      "\n"
      "Examples:\n"
      "  causeway plan --parameters 1.3e9 --step-time 0.4 --rate 500mbit --rtt 80ms\n"
      "  causeway plan --parameters 7e9 --step-time 2 --rate 1gbit,1gbit,200mbit --json");
  command->callback([arguments, environment] { Run(*arguments, environment); });
}

}  // namespace causeway::cli
