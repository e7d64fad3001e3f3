#include "tests/integration/transport/raw_peer.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

#include "daemon/transport/frames.h"
#include "daemon/transport/grpc_status.h"
#include "proto/wan.pb.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {

struct RawPeer::State {
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue.AsyncNext(&tag, &ok,
                           std::chrono::system_clock::now() + absl::ToChronoSeconds(kPatience)) ==
               grpc::CompletionQueue::GOT_EVENT &&
           ok;
  }

  grpc::CompletionQueue queue;
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  bool connected = false;
  bool finished = false;
};

RawPeer::RawPeer(const std::string& address, const std::string& method) : state_(new State) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  state_->channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  grpc::GenericStub stub(state_->channel);
  state_->call = stub.PrepareCall(&state_->context, method, &state_->queue);
  state_->call->StartCall(this);
  state_->connected = state_->Await();
}

RawPeer::~RawPeer() {
  state_->context.TryCancel();
  if (!state_->finished) (void)Finish();  // how it ended is of no interest any more
  state_->queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (state_->queue.Next(&tag, &ok)) {
  }
}

bool RawPeer::connected() const { return state_->connected; }

bool RawPeer::Write(const std::string& frame) {
  state_->call->Write(ToByteBuffer(frame), this);
  return state_->Await();
}

std::optional<std::string> RawPeer::Read() {
  grpc::ByteBuffer frame;
  state_->call->Read(&frame, this);
  if (!state_->Await()) return std::nullopt;
  grpc::Slice bytes;
  if (!frame.DumpToSingleSlice(&bytes).ok()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

absl::Status RawPeer::Finish() {
  grpc::Status status;
  state_->finished = true;
  state_->call->Finish(&status, this);
  if (!state_->Await()) return absl::DeadlineExceededError("the stream does not end");
  return FromGrpc(status);
}

std::string HelloFrame(uint64_t link, uint64_t incarnation, const std::string& cluster) {
  wan::v1::ControlFrame frame;
  frame.mutable_hello()->set_version_min(1);
  frame.mutable_hello()->set_version_max(1);
  frame.mutable_hello()->set_cluster(cluster);
  frame.mutable_hello()->set_incarnation(incarnation);
  frame.mutable_hello()->set_lanes(2);
  frame.mutable_hello()->set_link(link);
  return frame.SerializeAsString();
}

uint64_t ReadCredit(RawPeer& control, const std::string& run) {
  while (auto bytes = control.Read()) {
    wan::v1::ControlFrame frame;
    if (frame.ParseFromString(*bytes) && frame.has_credit() && frame.credit().run() == run) {
      return frame.credit().granted_bytes();
    }
  }
  return 0;
}

ChunkHeader RawHeader(const std::string& run) {
  ChunkHeader header;
  header.run = run;
  header.round = 1;
  header.incarnation = 7;
  return header;
}

}  // namespace causeway::transport
