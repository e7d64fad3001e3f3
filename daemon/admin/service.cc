#include "daemon/admin/service.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/admin/socket.h"
#include "proto/admin.grpc.pb.h"

namespace causeway::admin {
namespace {

constexpr int kRequestBytesMax = 64 * 1024;
constexpr int kThreadsMax = 4;
constexpr size_t kRunNameBytesMax = 63;
constexpr mode_t kSocketMode = 0660;
constexpr std::chrono::seconds kStopGrace(2);

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

class Calls : public v1::Admin::Service {
 public:
  explicit Calls(StatusProvider& provider) : provider_(provider) {}

  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*,
                      v1::StatusReply* reply) override {
    absl::Status filled = provider_.FillStatus(reply);
    return filled.ok() ? grpc::Status::OK : ToGrpc(filled);
  }

  grpc::Status ChangeRun(grpc::ServerContext*, const v1::ChangeRunRequest* request,
                         v1::ChangeRunReply* reply) override {
    if (request->run().empty() || request->run().size() > kRunNameBytesMax) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              absl::StrCat("a run's name has 1 to ", kRunNameBytesMax, " bytes")};
    }
    absl::StatusOr<std::string> done = provider_.ChangeRun(*request);
    if (!done.ok()) return ToGrpc(done.status());
    reply->set_message(*std::move(done));
    return grpc::Status::OK;
  }

 private:
  StatusProvider& provider_;
};

}  // namespace

class AdminService::Impl {
 public:
  Impl(PublishedSocket socket, StatusProvider& provider)
      : socket_(std::move(socket)), calls_(provider) {}

  absl::Status Start(const std::string& group) {
    grpc::ResourceQuota quota("admin");
    quota.SetMaxThreads(kThreadsMax);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kRequestBytesMax);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
    builder.AddListeningPort(absl::StrCat("unix:", socket_.private_path()),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&calls_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("admin socket: the server cannot bind ", socket_.private_path()));
    }
    return socket_.Publish(kSocketMode, group);
  }

  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + kStopGrace);
    server_->Wait();
    server_.reset();
  }

 private:
  PublishedSocket socket_;  // outlives the server
  Calls calls_;
  std::unique_ptr<grpc::Server> server_;
};

AdminService::AdminService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AdminService::~AdminService() { Stop(); }

void AdminService::Stop() {
  if (impl_ == nullptr) return;
  impl_->Stop();
  impl_.reset();
}

absl::StatusOr<std::unique_ptr<AdminService>> AdminService::Start(const std::string& socket,
                                                                  const std::string& group,
                                                                  StatusProvider& provider) {
  absl::StatusOr<PublishedSocket> prepared = PublishedSocket::Prepare(socket);
  if (!prepared.ok()) return prepared.status();
  auto impl = std::make_unique<Impl>(*std::move(prepared), provider);
  if (absl::Status status = impl->Start(group); !status.ok()) {
    impl->Stop();
    return status;
  }
  return std::unique_ptr<AdminService>(new AdminService(std::move(impl)));
}

}  // namespace causeway::admin
