// See pki_commands.h. Parsed values live in shared_ptrs that the callbacks own: CLI11 writes into
// them during the parse, after this function has returned.
#include "daemon/cli/pki/pki_commands.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/cli/pki/pki_report.h"
#include "daemon/cli/pki/pki_store.h"
#include "security/pki.h"

namespace causeway::cli {
namespace {

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 64;
    case absl::StatusCode::kInternal:
      return 70;
    case absl::StatusCode::kPermissionDenied:
      return 77;
    case absl::StatusCode::kFailedPrecondition:
      return 78;
    default:
      return 74;
  }
}

[[noreturn]] void Fail(const PkiEnvironment& environment, const absl::Status& status) {
  *environment.err << "causeway pki: " << std::string(status.message()) << "\n";
  throw CLI::RuntimeError(ExitCode(status));
}

// What a command wrote: a line a file for people, or the certificates among them as JSON.
void PrintWritten(const PkiEnvironment& environment,
                  const absl::StatusOr<std::vector<std::string>>& written, bool json) {
  if (!written.ok()) Fail(environment, written.status());
  if (!json) {
    for (const std::string& path : *written) *environment.out << "wrote " << path << "\n";
    return;
  }
  std::string text = "{\"written\":[";
  for (const std::string& path : *written) {
    text += (&path == &written->front() ? "" : ",") + JsonString(path);
  }
  *environment.out << text << "]}\n";
}

void AddInit(CLI::App* pki, const PkiEnvironment& environment) {
  auto request = std::make_shared<InitRequest>(
      InitRequest{kPkiDirectory, kPkiDomain, security::kAuthorityDays});
  auto json = std::make_shared<bool>(false);
  CLI::App* command = pki->add_subcommand("init", "Make the authority (ca.pem, ca.key)");
  command->add_option("--domain", request->domain, "Trust domain of every identity")
      ->capture_default_str();
  command->add_option("--directory", request->directory, "Where the authority lives")
      ->capture_default_str();
  command->add_option("--days", request->days, "Days until the authority ends")
      ->capture_default_str();
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Once, on a machine of its own: whoever has ca.key can make any gateway's certificate.\n"
      "\n"
      "Examples:\n"
      "  causeway pki init\n"
      "  causeway pki init --domain training.example.org --directory /root/causeway-pki");
  command->callback([request, json, environment] {
    PrintWritten(environment, InitAuthority(*request, environment.now_s()), *json);
  });
}

struct LeafArguments {
  LeafRequest request;
  bool json = false;
};

std::shared_ptr<LeafArguments> MakeLeafArguments() {
  auto arguments = std::make_shared<LeafArguments>();
  arguments->request.directory = kPkiDirectory;
  arguments->request.domain = kPkiDomain;
  arguments->request.days = security::kLeafDays;
  return arguments;
}

void AddCommonOptions(CLI::App* command, LeafArguments* arguments) {
  command->add_flag("--force", arguments->request.force, "Replace files that exist");
  command->add_flag("--json", arguments->json, "Print JSON");
}

void AddKeyOptions(CLI::App* command, LeafArguments* arguments) {
  command
      ->add_option("--dns", arguments->request.dns_names,
                   "DNS name to put in beside it; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--owner", arguments->request.owner,
                      "User who gets the private key, such as causeway");
}

void AddAuthorityOptions(CLI::App* command, LeafArguments* arguments) {
  command->add_option("--directory", arguments->request.directory, "Where the authority lives")
      ->capture_default_str();
  command->add_option("--days", arguments->request.days, "Days until the certificate ends")
      ->capture_default_str();
  command->add_option("--out", arguments->request.out,
                      "Directory for the files; default: DIRECTORY/CLUSTER");
}

void AddIssue(CLI::App* pki, const PkiEnvironment& environment) {
  auto arguments = MakeLeafArguments();
  CLI::App* command = pki->add_subcommand(
      "issue", "Make a gateway's key and certificate (gateway.key, gateway.pem, ca.pem)");
  command->add_option("cluster", arguments->request.cluster, "The cluster's name")->required();
  AddAuthorityOptions(command, arguments.get());
  AddKeyOptions(command, arguments.get());
  AddCommonOptions(command, arguments.get());
  command->footer(
      "Examples:\n"
      "  causeway pki issue paris\n"
      "  causeway pki issue paris --force      renewed; then: systemctl reload causewayd");
  command->callback([arguments, environment] {
    PrintWritten(environment, IssueCertificate(arguments->request, environment.now_s()),
                 arguments->json);
  });
}

void AddRequest(CLI::App* pki, const PkiEnvironment& environment) {
  auto arguments = MakeLeafArguments();
  arguments->request.out = kPkiDirectory;
  CLI::App* command = pki->add_subcommand(
      "request", "On the gateway: make its key and a signing request (gateway.key, gateway.csr)");
  command->add_option("cluster", arguments->request.cluster, "The cluster's name")->required();
  command->add_option("--domain", arguments->request.domain, "Trust domain of the authority")
      ->capture_default_str();
  command->add_option("--out", arguments->request.out, "Directory for the files")
      ->capture_default_str();
  AddKeyOptions(command, arguments.get());
  AddCommonOptions(command, arguments.get());
  command->footer(
      "The key stays on the gateway; the request goes to the authority, for `causeway pki sign`.\n"
      "\n"
      "Examples:\n"
      "  causeway pki request paris --owner causeway");
  command->callback([arguments, environment] {
    PrintWritten(environment, MakeSigningRequest(arguments->request), arguments->json);
  });
}

void AddSign(CLI::App* pki, const PkiEnvironment& environment) {
  auto arguments = MakeLeafArguments();
  CLI::App* command = pki->add_subcommand(
      "sign", "With the authority: sign a gateway's request (gateway.pem, ca.pem)");
  command->add_option("request", arguments->request.csr_path, "The request's file")->required();
  command->add_option("--cluster", arguments->request.cluster,
                      "Refuse a request for any other cluster");
  AddAuthorityOptions(command, arguments.get());
  AddCommonOptions(command, arguments.get());
  command->footer(
      "Examples:\n"
      "  causeway pki sign gateway.csr --cluster paris --out /tmp/paris");
  command->callback([arguments, environment] {
    PrintWritten(environment, SignSigningRequest(arguments->request, environment.now_s()),
                 arguments->json);
  });
}

void AddShow(CLI::App* pki, const PkiEnvironment& environment) {
  auto path = std::make_shared<std::string>(kPkiDirectory);
  auto json = std::make_shared<bool>(false);
  CLI::App* command = pki->add_subcommand("show", "Explain a certificate or a directory of them");
  command->add_option("path", *path, "A file, or a directory with *.pem")->capture_default_str();
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  causeway pki show\n"
      "  causeway pki show gateway.pem --json");
  command->callback([path, json, environment] {
    absl::StatusOr<std::vector<CertificateReport>> reports =
        ReportCertificates(*path, environment.now_s());
    if (!reports.ok()) Fail(environment, reports.status());
    *environment.out << (*json ? FormatJson(*reports) : FormatText(*reports));
  });
}

}  // namespace

void AddPkiCommands(CLI::App& app, const PkiEnvironment& environment) {
  CLI::App* pki = app.add_subcommand("pki", "Certificates: an authority and its gateways");
  pki->require_subcommand(1);
  AddInit(pki, environment);
  AddIssue(pki, environment);
  AddRequest(pki, environment);
  AddSign(pki, environment);
  AddShow(pki, environment);
}

}  // namespace causeway::cli
