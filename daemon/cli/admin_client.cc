#include "daemon/cli/admin_client.h"

#include <errno.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/admin.grpc.pb.h"

namespace causeway::cli {
namespace {

constexpr int kReplyBytesMax = 16 << 20;

bool IsSocket(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode);
}

absl::Status Explain(const std::string& socket, int error) {
  switch (error) {
    case ENOENT:
      return absl::UnavailableError(absl::StrCat(
          "no daemon: ", socket, " does not exist; is causewayd running ",
          "(systemctl status causewayd), or is its admin.socket another path ", "(--socket)?"));
    case ECONNREFUSED:
      if (!IsSocket(socket)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--socket: ", socket, " is no socket; it must name the daemon's admin.socket"));
      }
      return absl::UnavailableError(absl::StrCat(
          "no daemon listens on ", socket,
          "; it ended without removing its socket: ", "journalctl -u causewayd shows why"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat("this user may not use ", socket,
                       "; run as root or as a member of the group that ", "admin.group names"));
    default:
      return absl::UnavailableError(absl::StrCat(socket, ": ", strerror(error)));
  }
}

absl::Status TryConnect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("--socket: a socket's path has 1 to ",
                                                   sizeof(address.sun_path) - 1, " bytes"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return Explain(path, errno);
  const int result =
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = result == 0 ? 0 : errno;
  close(descriptor);
  return error == 0 || error == EAGAIN ? absl::OkStatus() : Explain(path, error);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(
        absl::StrCat("the daemon did not answer within ", kCallTimeoutMs / 1000,
                     " s although its socket is open; its log may say what it does"));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

struct AdminClient::State {
  std::unique_ptr<admin::v1::Admin::Stub> stub;

  void Prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(kCallTimeoutMs));
  }
};

AdminClient::AdminClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
AdminClient::AdminClient(AdminClient&&) noexcept = default;
AdminClient::~AdminClient() = default;

absl::StatusOr<AdminClient> AdminClient::Connect(const std::string& socket) {
  if (absl::Status status = TryConnect(socket); !status.ok()) return status;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kReplyBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto state = std::make_unique<State>();
  state->stub = admin::v1::Admin::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials(), arguments));
  return AdminClient(std::move(state));
}

absl::StatusOr<admin::v1::StatusReply> AdminClient::Status() {
  grpc::ClientContext context;
  state_->Prepare(context);
  admin::v1::StatusReply reply;
  const grpc::Status status = state_->stub->Status(&context, {}, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

absl::StatusOr<std::string> AdminClient::ChangeRun(const admin::v1::ChangeRunRequest& request) {
  grpc::ClientContext context;
  state_->Prepare(context);
  admin::v1::ChangeRunReply reply;
  const grpc::Status status = state_->stub->ChangeRun(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply.message();
}

}  // namespace causeway::cli
