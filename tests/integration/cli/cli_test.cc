// The operator's command as a person and a script meet it: output, errors, exit codes.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "command.h"
#include "daemon/admin/service.h"
#include "proto/admin.pb.h"

namespace causeway::cli {
namespace {

using testing::Directory;
using testing::Result;
using testing::RunCommand;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class FakeProvider : public admin::StatusProvider {
 public:
  absl::Status FillStatus(admin::v1::StatusReply* reply) override {
    reply->set_cluster("paris");
    reply->set_software("causeway 9.9.9");
    admin::v1::PeerStatus* peer = reply->add_peers();
    peer->set_cluster("tokyo");
    peer->set_state("down");
    peer->set_last_error("connection refused");
    admin::v1::RunStatus* run = reply->add_runs();
    run->set_name("demo");
    run->set_state("stalled");
    run->add_awaited("tokyo");
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ChangeRun(const admin::v1::ChangeRunRequest& request) override {
    const std::string& run = request.run();
    if (run == "demo" && request.verb() == admin::v1::ChangeRunRequest::VOTERS) {
      return absl::StrCat("voters: ", absl::StrJoin(request.voters(), ","), "; primary ",
                          request.primary());
    }
    if (run == "demo" && request.verb() != admin::v1::ChangeRunRequest::FORGET) {
      return admin::v1::ChangeRunRequest::Verb_Name(request.verb());
    }
    if (run == "demo") return "forgot demo: 3 files removed";
    if (run == "busy")
      return absl::FailedPreconditionError("run busy has 2 trainers; end them first");
    return absl::NotFoundError("there is no run '" + run + "'; known: busy, demo");
  }
};

// Certificates made by the command itself, and a configuration that names them.
struct Site {
  Site() {
    const std::string pki = directory.path + "/pki";
    REQUIRE(RunCommand({"pki", "init", "--directory", pki}).code == 0);
    REQUIRE(RunCommand({"pki", "issue", "paris", "--directory", pki}).code == 0);
    certificates = pki + "/paris";
  }
  std::string Config(const std::string& cluster, const std::string& more = "") const {
    return directory.File(
        "causeway.yaml",
        "cluster: " + cluster + "\ntls:\n  certificate: " + certificates +
            "/gateway.pem\n  key: " + certificates + "/gateway.key\n  authority: " + certificates +
            "/ca.pem\npeers:\n  - cluster: tokyo\nstate_directory: " + directory.path +
            "/state\nruns:\n  - name: demo\n    clusters: [" + cluster +
            ", tokyo]\n    algorithm: {rule: average, local_steps: 10}\n"
            "    codec: {kind: int4, error_feedback: true}\n" +
            more);
  }
  Directory directory;
  std::string certificates;
};

TEST_CASE("help and usage") {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"check-config", "--help"},
                                             {"status", "--help"},
                                             {"run", "--help"},
                                             {"run", "forget", "--help"},
                                             {"pki", "--help"},
                                             {"version", "--help"}}) {
    const Result result = RunCommand(command);
    INFO(command[0] << "\n" << result.out << result.err);
    CHECK(result.code == 0);
    CHECK(Has(result.out, "Usage:"));
    CHECK(result.err.empty());
  }
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"check-config"},
                                             {"plan"},
                                             {"status"},
                                             {"run", "stop"},
                                             {"run", "start"},
                                             {"run", "leave"},
                                             {"run", "voters"},
                                             {"run", "rollback"},
                                             {"run", "forget"},
                                             {"pki", "init"},
                                             {"pki", "issue"},
                                             {"pki", "request"},
                                             {"pki", "sign"},
                                             {"pki", "show"},
                                             {"version"}}) {
    std::vector<std::string> words = command;
    words.push_back("--help");
    INFO(absl::StrJoin(words, " "));
    CHECK(Has(RunCommand(words).out, "Examples:"));
  }
  CHECK(RunCommand({}).code == 64);
  CHECK(RunCommand({"status", "--bogus"}).code == 64);
  CHECK(RunCommand({"run"}).code == 64);
  CHECK(RunCommand({"run", "forget"}).code == 64);
  CHECK(RunCommand({"status", "--interval", "-1"}).code == 64);
  CHECK(RunCommand({"check-config", "--parameters", "many"}).code == 64);
  CHECK(RunCommand({"check-config", "--parameters", "0"}).code == 64);
  const Result typo = RunCommand({"statsu"});
  CHECK(typo.code == 64);
  CHECK(Has(typo.err, "did you mean 'status'?"));
}

TEST_CASE("version") {
  CHECK(Has(RunCommand({"version"}).out, "causeway "));
  CHECK(RunCommand({"--version"}).out == RunCommand({"version"}).out);
  CHECK(Has(RunCommand({"version", "--json"}).out, "{\"version\":\""));
}

TEST_CASE("check-config of a good file") {
  const Site site;
  const std::string file = site.Config("paris");
  const Result text = RunCommand({"check-config", file});
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK(Has(text.out, file + ": valid\n"));
  CHECK(Has(text.out, "  heartbeat       2s "));
  CHECK(Has(text.out, "run demo: paris, tokyo; average, 10 local steps, 1 fragment, delay 0; "));
  CHECK(Has(text.out, "  25,000,000 parameters: "));
  const Result json = RunCommand({"check-config", file, "--json", "--parameters", "1000000"});
  CHECK(json.code == 0);
  CHECK(Has(json.out, "\"valid\":true,\"errors\":[]"));
  CHECK(Has(json.out, "\"timeouts_ms\":{\"peer_timeout\":10000,\"heartbeat\":2000,"));
  CHECK(Has(json.out, "\"parameters\":1000000,\"bytes\":"));
}

TEST_CASE("check-config of a bad file") {
  const Site site;
  const std::string file =
      site.Config("paris", "peer_timout: 10s\nlanes: 0\ncluster: paris\nworkers: [1]\n");
  const Result text = RunCommand({"check-config", file});
  CHECK(text.code == 78);
  CHECK(text.out.empty());
  const std::string at = file + ":";
  CHECK(Has(text.err, at + "14:1: peer_timout: unknown key; did you mean 'peer_timeout'?\n"));
  CHECK(Has(text.err, at + "15:8: lanes: 0 is out of range; allowed: 1 to 32\n"));
  CHECK(Has(text.err, at + "16:1: cluster: duplicate key; first on line 1; remove one of them\n"));
  CHECK(Has(text.err, at + "17:10: workers: expected a single value, not a list\n"));
  const Result json = RunCommand({"check-config", file, "--json"});
  CHECK(json.code == 78);
  CHECK(Has(json.out,
            "\"valid\":false,\"errors\":[{\"line\":14,\"column\":1,\"key\":\"peer_timout\","));
}

TEST_CASE("check-config looks at the certificates") {
  const Site site;
  const Result other = RunCommand({"check-config", site.Config("oslo")});
  CHECK(other.code == 78);
  CHECK(Has(other.err, "paris"));  // names whose certificate it is
  CHECK(RunCommand({"check-config", site.Config("oslo"), "--no-files"}).code == 0);
  const Result domain = RunCommand({"check-config", site.Config("paris", "domain: example.org\n")});
  CHECK(domain.code == 78);
  CHECK(Has(domain.err, "is of the domain 'causeway.internal', but domain is 'example.org'"));
  REQUIRE(chmod((site.certificates + "/gateway.key").c_str(), 0644) == 0);
  const Result loose = RunCommand({"check-config", site.Config("paris")});
  CHECK(loose.code == 78);
  CHECK(Has(loose.err, ":4:8: tls.key: "));
  CHECK(Has(loose.err, "chmod 0600 " + site.certificates + "/gateway.key"));
}

TEST_CASE("check-config of a model that does not fit") {
  const Site site;
  const std::string file = site.Config("paris", "memory: 64MiB\n");
  CHECK(RunCommand({"check-config", file, "--parameters", "1e6"}).code == 0);
  const Result result = RunCommand({"check-config", file, "--parameters", "1000000000"});
  CHECK(result.code == 78);
  CHECK(Has(result.err, "memory: runs of 1,000,000,000 parameters take "));
}

TEST_CASE("check-config of files that cannot be read") {
  const Directory directory;
  const Result absent = RunCommand({"check-config", directory.path + "/absent.yaml"});
  CHECK(absent.code == 74);
  CHECK(Has(absent.err, "/absent.yaml: No such file or directory; write it, from share/"));
  CHECK(RunCommand({"check-config", directory.path}).code == 74);
  CHECK(RunCommand({"check-config", directory.File("empty.yaml", "")}).code == 78);
}

TEST_CASE("the example passes where its files are not") {
  const Result result =
      RunCommand({"check-config", "--no-files", CAUSEWAY_DEPLOY "/config/causeway.yaml"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("status of a running daemon") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  const auto service = admin::AdminService::Start(socket, "", provider);
  REQUIRE(service.ok());
  const Result text = RunCommand({"status", "--socket", socket});
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK(Has(text.out, "paris  causeway 9.9.9"));
  CHECK(Has(text.out, "  tokyo: connection refused\n"));
  CHECK(Has(text.out, "run demo: stalled; waits for tokyo\n"));
  const Result json = RunCommand({"status", "--socket", socket, "--json"});
  CHECK(json.code == 0);
  CHECK(Has(json.out, "{\"cluster\":\"paris\","));
  CHECK(Has(json.out, "\"awaited\":[\"tokyo\"]"));
}

TEST_CASE("run forget") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  const auto service = admin::AdminService::Start(socket, "", provider);
  REQUIRE(service.ok());
  const auto forget = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "forget", "--socket", socket});
    return RunCommand(words);
  };
  CHECK(forget({"demo"}).out == "forgot demo: 3 files removed\n");
  CHECK(forget({"demo", "--json"}).out ==
        "{\"run\":\"demo\",\"message\":\"forgot demo: 3 files removed\"}\n");
  const Result unknown = forget({"dmeo"});
  CHECK(unknown.code == 64);
  CHECK(Has(unknown.err, "there is no run 'dmeo'; known: busy, demo"));
  const Result busy = forget({"busy"});
  CHECK(busy.code == 69);
  CHECK(Has(busy.err, "run busy has 2 trainers; end them first"));
}

TEST_CASE("what else an operator does to a run") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  const auto service = admin::AdminService::Start(socket, "", provider);
  REQUIRE(service.ok());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--socket", socket});
    return RunCommand(words);
  };
  CHECK(run({"stop", "demo"}).out == "STOP\n");
  CHECK(run({"start", "demo"}).out == "START\n");
  CHECK(run({"leave", "demo"}).out == "LEAVE\n");
  CHECK(run({"voters", "demo", "paris", "tokyo", "--primary", "paris"}).out ==
        "voters: paris,tokyo; primary paris\n");
  CHECK(run({"voters", "demo"}).code == 64);
  CHECK(run({"rollback", "demo", "--approve"}).out == "APPROVE_ROLLBACK\n");
  const Result unsure = run({"rollback", "demo"});
  CHECK(unsure.code == 64);
  CHECK(Has(unsure.err, "--approve"));
}

TEST_CASE("no daemon: the reason and exit 69") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  const Result absent = RunCommand({"status", "--socket", socket});
  CHECK(absent.code == 69);
  CHECK(Has(absent.err, socket + " does not exist"));
  CHECK(absent.out.empty());

  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket.c_str());
  const int stale = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  close(stale);
  const Result dead = RunCommand({"run", "forget", "demo", "--socket", socket});
  CHECK(dead.code == 69);
  CHECK(Has(dead.err, "no daemon listens on " + socket));
  const Result file = RunCommand({"status", "--socket", "/dev/null"});
  CHECK(file.code == 64);
  CHECK(Has(file.err, "/dev/null is no socket"));
  CHECK(RunCommand({"status", "--socket", "/" + std::string(200, 'x')}).code == 64);
}

TEST_CASE("a socket that this user may not use: exit 77") {
  if (geteuid() == 0) return;  // root may use every socket
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  const auto service = admin::AdminService::Start(socket, "", provider);
  REQUIRE(service.ok());
  REQUIRE(chmod(socket.c_str(), 0) == 0);
  CHECK(RunCommand({"status", "--socket", socket}).code == 77);
}

}  // namespace
}  // namespace causeway::cli
