// The two kinds of ByteStream: dialled (a generic client call) and accepted (a call of a generic
// service).
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "daemon/transport/byte_stream.h"

namespace causeway::transport {
namespace {

grpc::WriteOptions Options(bool more) {
  grpc::WriteOptions options;
  options.set_no_compression();
  if (more) options.set_buffer_hint();
  return options;
}

class DialledStream final : public ByteStream {
 public:
  DialledStream(StreamSet& streams, Poller& poller, std::shared_ptr<grpc::Channel> channel,
                const std::string& method, Handler* handler)
      : ByteStream(streams), channel_(std::move(channel)) {
    SetHandler(handler);
    grpc::GenericStub stub(channel_);
    call_ = stub.PrepareCall(&context_, method, poller.queue());
    call_->StartCall(Begin(start_op_));
  }

  std::string remote() const override { return context_.peer(); }
  std::shared_ptr<const grpc::AuthContext> auth_context() const override {
    return context_.auth_context();
  }

 protected:
  void StartRead(grpc::ByteBuffer* frame, void* tag) override { call_->Read(frame, tag); }
  void StartWrite(const grpc::ByteBuffer& frame, bool more, void* tag) override {
    call_->Write(frame, Options(more), tag);
  }
  void StartFinish(const grpc::Status&, grpc::Status* theirs, void* tag) override {
    call_->Finish(theirs, tag);
  }
  void TryCancel() override { context_.TryCancel(); }
  bool accepted() const override { return false; }

 private:
  void Started(bool ok) {
    if (ok && !ending()) {
      Opened();
    } else {
      Finish(absl::OkStatus());  // which tells why
    }
  }

  const std::shared_ptr<grpc::Channel> channel_;  // shared: gRPC's own way of holding channels
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  Op start_op_{this, static_cast<void (ByteStream::*)(bool)>(&DialledStream::Started)};
};

class AcceptedStream final : public ByteStream {
 public:
  AcceptedStream(StreamSet& streams, StreamAcceptor& acceptor, grpc::AsyncGenericService& service,
                 grpc::ServerCompletionQueue& queue, StreamAcceptor::Handler& handler)
      : ByteStream(streams), acceptor_(acceptor), acceptor_handler_(handler) {
    context_.AsyncNotifyWhenDone(static_cast<Poller::Event*>(&done_op_));
    service.RequestCall(&context_, &call_, &queue, &queue, Begin(request_op_));
  }

  std::string remote() const override { return context_.peer(); }
  std::shared_ptr<const grpc::AuthContext> auth_context() const override {
    return context_.auth_context();
  }

 protected:
  void StartRead(grpc::ByteBuffer* frame, void* tag) override { call_.Read(frame, tag); }
  void StartWrite(const grpc::ByteBuffer& frame, bool more, void* tag) override {
    call_.Write(frame, Options(more), tag);
  }
  void StartFinish(const grpc::Status& ours, grpc::Status*, void* tag) override {
    call_.Finish(ours, tag);
  }
  void TryCancel() override {
    if (began_) context_.TryCancel();
  }
  bool accepted() const override { return true; }

 private:
  void Requested(bool ok) {
    if (!ok) {  // the server shuts down
      NeverBegan();
      return;
    }
    began_ = true;
    Begin(done_op_);
    if (ending()) {
      Finish(absl::UnavailableError("this gateway shuts down"));
      return;
    }
    acceptor_.AcceptNext();
    SetOpen();
    acceptor_handler_.OnStream(this, context_.method());
    Opened();
  }
  void Done(bool) {
    Ended(absl::UnavailableError("the peer closed the stream"));
    Finish(absl::CancelledError("closed by the peer"));
  }

  StreamAcceptor& acceptor_;
  StreamAcceptor::Handler& acceptor_handler_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter call_{&context_};
  bool began_ = false;
  Op request_op_{this, static_cast<void (ByteStream::*)(bool)>(&AcceptedStream::Requested)};
  Op done_op_{this, static_cast<void (ByteStream::*)(bool)>(&AcceptedStream::Done)};
};

}  // namespace

ByteStream* DialStream(StreamSet& streams, Poller& poller, std::shared_ptr<grpc::Channel> channel,
                       const std::string& method, ByteStream::Handler* handler) {
  return new DialledStream(streams, poller, std::move(channel), method, handler);
}

void StreamAcceptor::AcceptNext() {
  new AcceptedStream(streams_, *this, service_, queue_, handler_);  // owns itself
}

}  // namespace causeway::transport
