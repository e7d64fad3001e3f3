#include "tests/integration/transport/fake_relay.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/frames.h"
#include "daemon/transport/tunnel_frame.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

std::string Bytes(const grpc::ByteBuffer& frame) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!frame.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

// A control stream, or one end of a tunnel; of lanes nothing is read.
class FakeRelay::Caller final : public ByteStream::Handler {
 public:
  Caller(FakeRelay& relay, ByteStream* stream, std::string method)
      : relay_(relay), stream_(stream), method_(std::move(method)) {}

  void Send(grpc::ByteBuffer frame) {
    waiting_.push_back(std::move(frame));
    Pump();
  }

  void OnRead(const grpc::ByteBuffer& frame) override {
    if (method_ == kControlMethod) {
      if (auto control = DecodeControl(frame); control.ok() && control->has_hello()) {
        relay_.controls_[control->hello().cluster()] = this;
        control->mutable_hello()->set_cluster("oslo");
        control->mutable_hello()->set_incarnation(9);
        control->mutable_hello()->set_lanes(1);
        Send(EncodeControl(*control));
      }
    } else if (method_ == kTunnelMethod) {
      OnTunnel(frame);
    }
  }
  void OnWritten() override { Pump(); }
  void OnClosed(const absl::Status&) override {
    stream_ = nullptr;
    if (other_ != nullptr && other_->stream_ != nullptr) {
      other_->stream_->Cancel(absl::UnavailableError("the other end is gone"));
    }
  }

 private:
  void OnTunnel(const grpc::ByteBuffer& frame) {
    if (other_ == nullptr) {
      if (!greeted_) {
        greeted_ = true;
        Greet(*DecodeTunnelHello(frame));
      } else {
        early_.push_back(frame);
      }
      return;
    }
    std::string bytes = Bytes(frame);
    {
      absl::MutexLock lock(&relay_.mutex_);
      relay_.seen_ += bytes;
    }
    const size_t above = relay_.tamper_above_;
    if (above != 0 && bytes.size() > above) bytes[bytes.size() / 2] ^= 0x40;
    other_->Send(ToByteBuffer(std::move(bytes)));
  }

  void Greet(const TunnelHelloFrame& hello) {
    if (!hello.to.empty()) {
      const uint64_t tunnel = relay_.next_tunnel_++;
      relay_.opened_[tunnel] = this;
      wan::v1::ControlFrame offer;
      offer.mutable_tunnel()->set_tunnel(tunnel);
      offer.mutable_tunnel()->set_from(hello.cluster);
      if (auto far = relay_.controls_.find(hello.to); far != relay_.controls_.end()) {
        far->second->Send(EncodeControl(offer));
      }
      return;
    }
    other_ = relay_.opened_.at(hello.tunnel);
    other_->other_ = this;
    for (const grpc::ByteBuffer& frame : std::exchange(other_->early_, {})) {
      other_->OnTunnel(frame);
    }
  }

  void Pump() {
    if (stream_ == nullptr || waiting_.empty() || !stream_->writable()) return;
    const grpc::ByteBuffer frame = std::move(waiting_.front());
    waiting_.pop_front();
    stream_->Write(frame);
  }

  FakeRelay& relay_;
  ByteStream* stream_;
  const std::string method_;
  bool greeted_ = false;
  Caller* other_ = nullptr;
  std::deque<grpc::ByteBuffer> waiting_;
  std::vector<grpc::ByteBuffer> early_;
};

FakeRelay::FakeRelay(std::shared_ptr<grpc::ServerCredentials> credentials) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port_);
  builder.RegisterAsyncGenericService(&service_);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* server_queue = queue.get();
  poller_ = std::make_unique<Poller>(std::move(queue));
  server_ = builder.BuildAndStart();
  REQUIRE(server_ != nullptr);
  acceptor_ = std::make_unique<StreamAcceptor>(streams_, service_, *server_queue, *this);
  acceptor_->AcceptNext();
  poller_->Start(
      absl::Milliseconds(5),
      [this] {
        if (stopping_) streams_.CancelAll();
      },
      [] {});
}

FakeRelay::~FakeRelay() {
  stopping_ = true;
  server_->Shutdown(std::chrono::system_clock::now());
  std::atomic<bool> empty{false};
  while (!empty) {
    std::atomic<bool> asked{false};
    poller_->Post([&] {
      streams_.CancelAll();
      empty = streams_.empty();
      asked = true;
    });
    while (!asked) absl::SleepFor(absl::Milliseconds(1));
  }
  poller_->Shutdown();
}

std::string FakeRelay::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::string FakeRelay::Seen() {
  absl::MutexLock lock(&mutex_);
  return seen_;
}

void FakeRelay::OnStream(ByteStream* stream, const std::string& method) {
  callers_.push_back(std::make_unique<Caller>(*this, stream, method));
  stream->SetHandler(callers_.back().get());
}

}  // namespace causeway::transport
