// See gateway_fixture.h.
#include "tests/integration/security/gateway_fixture.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>
#include <future>
#include <system_error>

#include "security/secure_files.h"
#include "security/tls_policy.h"

namespace causeway::testing {
namespace {

using security::Credentials;
using security::HandshakeRejection;

constexpr int64_t kDay_s = 24 * 3600;

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return "";
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// Answers one message with the caller's cluster.
class NameReactor : public grpc::ServerGenericBidiReactor {
 public:
  NameReactor(grpc::GenericCallbackServerContext* context, Credentials* credentials) {
    absl::StatusOr<security::AuthenticatedPeer> peer = credentials->Authenticate(*context);
    if (!peer.ok()) {
      Finish(
          grpc::Status(grpc::StatusCode::PERMISSION_DENIED, std::string(peer.status().message())));
      return;
    }
    answer_ = ToBuffer(peer->cluster);
    StartRead(&question_);
  }
  void OnReadDone(bool ok) override {
    if (ok) {
      StartWriteAndFinish(&answer_, {}, grpc::Status::OK);
    } else {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"));
    }
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer question_;
  grpc::ByteBuffer answer_;
};

}  // namespace

int64_t NowSeconds() { return static_cast<int64_t>(std::time(nullptr)); }

TlsEnvironment& TlsEnvironment::Get() {
  static TlsEnvironment environment;
  return environment;
}

TlsEnvironment::TlsEnvironment() {
  const absl::Status status = security::RequireTls13();
  INFO(status.message());
  REQUIRE(status.ok());
  auto observer = security::TlsObserver::Create([this](const security::TlsFailure& failure) {
    const absl::MutexLock lock(&mutex_);
    if (receiver_ != nullptr) receiver_->NoteTlsFailure(failure);
  });
  REQUIRE(observer.ok());
  observer_ = *std::move(observer);
}

void TlsEnvironment::SetReceiver(Credentials* receiver) {
  const absl::MutexLock lock(&mutex_);
  receiver_ = receiver;
}

Site::Site(const std::string& domain) : domain_(domain) {
  TlsEnvironment::Get();
  directory_ = (std::filesystem::temp_directory_path() / "causeway-handshake-XXXXXX").string();
  REQUIRE(mkdtemp(directory_.data()) != nullptr);
  // Old enough for gateways whose clocks are slow.
  auto authority =
      security::MakeAuthority(domain, {NowSeconds() - 100 * kDay_s, NowSeconds() + 3650 * kDay_s});
  REQUIRE(authority.ok());
  authority_ = *authority;
  REQUIRE(security::WriteFileAtomically(File("ca.pem"), authority_.certificate_pem, {}).ok());
}

Site::~Site() {
  std::error_code ignored;  // a destructor has nobody to tell
  std::filesystem::remove_all(directory_, ignored);
}

void Site::Issue(const std::string& cluster, int begin_days, int end_days) {
  auto leaf = security::IssueLeaf(authority_, {.identity = {domain_, cluster},
                                               .validity = {NowSeconds() + begin_days * kDay_s,
                                                            NowSeconds() + end_days * kDay_s}});
  REQUIRE(leaf.ok());
  REQUIRE(security::WriteFileAtomically(File(cluster + ".key"), leaf->key_pem,
                                        {.mode = 0600, .overwrite = true})
              .ok());
  REQUIRE(security::WriteFileAtomically(File(cluster + ".pem"), leaf->certificate_pem,
                                        {.mode = 0644, .overwrite = true})
              .ok());
}

security::CredentialFiles Site::Files(const std::string& cluster) const {
  return {File(cluster + ".pem"), File(cluster + ".key"), File("ca.pem")};
}

void RejectionLog::Add(const HandshakeRejection& rejection) {
  const absl::MutexLock lock(&mutex_);
  rejections_.push_back(rejection);
}

HandshakeRejection RejectionLog::WaitFor(
    const std::function<bool(const HandshakeRejection&)>& fits) {
  HandshakeRejection found;
  const auto there = [&] {
    mutex_.AssertHeld();  // by Await; the analysis does not see it
    for (const HandshakeRejection& rejection : rejections_) {
      if (!fits(rejection)) continue;
      found = rejection;
      return true;
    }
    return false;
  };
  const absl::MutexLock lock(&mutex_);
  const bool arrived = mutex_.AwaitWithTimeout(absl::Condition(&there), kPatience);
  for (const HandshakeRejection& rejection : rejections_) UNSCOPED_INFO(rejection.reason);
  REQUIRE(arrived);
  return found;
}

class Gateway::Service : public grpc::CallbackGenericService {
 public:
  explicit Service(Credentials* credentials) : credentials_(credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials->server(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
    REQUIRE(port_ > 0);
    credentials->SetListeningPort(static_cast<uint16_t>(port_));
  }
  ~Service() override {
    // A deadline in the past: open calls are cancelled at once.
    server_->Shutdown(gpr_time_0(GPR_CLOCK_REALTIME));
    server_->Wait();
  }
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new NameReactor(context, credentials_);
  }
  int port() const { return port_; }

 private:
  Credentials* const credentials_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Gateway::Gateway(const Site& site, const std::string& cluster, std::vector<std::string> peers,
                 int64_t clock_offset_s) {
  Credentials::Options options;
  options.cluster = cluster;
  options.files = site.Files(cluster);
  options.peers = std::move(peers);
  options.now_s = [clock_offset_s] { return NowSeconds() + clock_offset_s; };
  options.on_rejection = [log = rejections_.get()](const HandshakeRejection& rejection) {
    log->Add(rejection);
  };
  auto credentials = Credentials::Load(std::move(options));
  INFO(credentials.status().message());
  REQUIRE(credentials.ok());
  credentials_ = *std::move(credentials);
}

Gateway::~Gateway() {
  TlsEnvironment::Get().SetReceiver(nullptr);
  service_.reset();
}

void Gateway::Serve() {
  service_ = std::make_unique<Service>(credentials_.get());
  TlsEnvironment::Get().SetReceiver(credentials_.get());
}

int Gateway::port() const { return service_->port(); }

std::string Gateway::address() const { return "127.0.0.1:" + std::to_string(port()); }

std::shared_ptr<grpc::Channel> Gateway::Dial(const std::string& cluster,
                                             const std::string& address) {
  auto credentials = credentials_->channel(cluster);
  REQUIRE(credentials.ok());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, *credentials, arguments);
}

Answer Call(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  const grpc::ByteBuffer question = ToBuffer("who am I?");
  grpc::ByteBuffer text;
  Answer answer;
  std::promise<void> done;
  stub.UnaryCall(&context, "/causeway.test/Name", {}, &question, &text,
                 [&answer, &done](grpc::Status status) {
                   answer.status = std::move(status);
                   done.set_value();
                 });
  done.get_future().wait();
  answer.text = ToText(text);
  return answer;
}

}  // namespace causeway::testing
