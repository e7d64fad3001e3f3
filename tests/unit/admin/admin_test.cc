// The admin socket and service, called as a client calls it.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "daemon/admin/service.h"
#include "daemon/admin/socket.h"
#include "proto/admin.grpc.pb.h"

namespace causeway::admin {
namespace {

class FakeProvider : public StatusProvider {
 public:
  absl::Status FillStatus(v1::StatusReply* reply) override {
    if (busy) return absl::UnavailableError("busy");
    reply->set_cluster("paris");
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> ChangeRun(const v1::ChangeRunRequest& request) override {
    if (request.run() != "demo") {
      return absl::NotFoundError("no run '" + request.run() + "'; known: demo");
    }
    return v1::ChangeRunRequest::Verb_Name(request.verb()) + " demo";
  }
  bool busy = false;
};

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "causeway-admin-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
  }
  std::string path;
};

std::unique_ptr<v1::Admin::Stub> Stub(const std::string& socket) {
  return v1::Admin::NewStub(
      grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
}

// A unix socket that is bound; listens where `alive`.
int BindSocket(const std::string& path, bool alive) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  if (alive) REQUIRE(listen(descriptor, 1) == 0);
  return descriptor;
}

TEST_CASE("status and changes of runs") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  auto service = AdminService::Start(socket, "", provider);
  INFO(service.status());
  REQUIRE(service.ok());
  const auto stub = Stub(socket);
  {
    grpc::ClientContext context;
    v1::StatusReply reply;
    REQUIRE(stub->Status(&context, {}, &reply).ok());
    CHECK(reply.cluster() == "paris");
  }
  {
    provider.busy = true;
    grpc::ClientContext context;
    v1::StatusReply reply;
    CHECK(stub->Status(&context, {}, &reply).error_code() == grpc::StatusCode::UNAVAILABLE);
  }
  const auto forget = [&](const std::string& run, v1::ChangeRunReply* reply) {
    grpc::ClientContext context;
    v1::ChangeRunRequest request;
    request.set_run(run);
    request.set_verb(v1::ChangeRunRequest::FORGET);
    return stub->ChangeRun(&context, request, reply);
  };
  v1::ChangeRunReply reply;
  REQUIRE(forget("demo", &reply).ok());
  CHECK(reply.message() == "FORGET demo");
  const grpc::Status unknown = forget("x", &reply);
  CHECK(unknown.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(unknown.error_message() == "no run 'x'; known: demo");
  CHECK(forget("", &reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(forget(std::string(1000, 'x'), &reply).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  (*service)->Stop();
  CHECK(directory.files() == 0);
}

TEST_CASE("the socket's mode does not depend on the umask") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  for (const mode_t mask : {0000, 0027, 0077}) {
    const mode_t before = umask(mask);
    const auto service = AdminService::Start(socket, "", provider);
    umask(before);
    INFO(service.status());
    REQUIRE(service.ok());
    struct stat info;
    REQUIRE(stat(socket.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0660);
    CHECK(directory.files() == 1);  // the socket alone
  }
  CHECK(directory.files() == 0);
}

TEST_CASE("a stale socket is replaced, a live one is not") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  close(BindSocket(socket, false));
  auto first = AdminService::Start(socket, "", provider);
  INFO(first.status());
  REQUIRE(first.ok());
  const auto second = AdminService::Start(socket, "", provider);
  CHECK(absl::IsAlreadyExists(second.status()));
  CHECK(second.status().message().find(socket) != std::string::npos);
  grpc::ClientContext context;
  v1::StatusReply reply;
  CHECK(Stub(socket)->Status(&context, {}, &reply).ok());
}

TEST_CASE("what lies in the way") {
  const Directory directory;
  FakeProvider provider;
  const std::string file = directory.path + "/file";
  std::ofstream(file) << "precious";
  const auto not_socket = AdminService::Start(file, "", provider);
  CHECK(not_socket.status().message().find("not a socket") != std::string::npos);
  CHECK(std::filesystem::file_size(file) == 8);
  const auto no_directory = AdminService::Start(directory.path + "/no/admin.sock", "", provider);
  CHECK(no_directory.status().message().find("No such file") != std::string::npos);
  const auto no_group = AdminService::Start(directory.path + "/a", "no-such-group", provider);
  CHECK(no_group.status().message().find("groupadd") != std::string::npos);
  CHECK(directory.files() == 1);
}

TEST_CASE("another daemon's socket is not removed at the end") {
  const Directory directory;
  const std::string socket = directory.path + "/admin.sock";
  FakeProvider provider;
  auto service = AdminService::Start(socket, "", provider);
  REQUIRE(service.ok());
  REQUIRE(unlink(socket.c_str()) == 0);
  const int other = BindSocket(socket, true);
  (*service)->Stop();
  CHECK(std::filesystem::exists(socket));
  close(other);
}

}  // namespace
}  // namespace causeway::admin
