#include "daemon/transport/greeter.h"

#include <grpcpp/security/auth_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/frames.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

// grpc.health.v1.HealthCheckResponse: its field `status` alone.
const std::string kServing = "\x08\x01";
const std::string kNotServing = "\x08\x02";

}  // namespace

// A stream whose hello has not come yet.
class Greeter::Guest final : public ByteStream::Handler {
 public:
  Guest(Greeter& greeter, ByteStream* stream, std::string cluster, std::string method)
      : greeter(greeter), stream(stream), cluster(std::move(cluster)), method(std::move(method)) {}

  void OnRead(const grpc::ByteBuffer& frame) override { greeter.Hello(*this, frame); }
  void OnWritten() override {}
  void OnClosed(const absl::Status& reason) override {
    stream = nullptr;
    ++greeter.refused_;
    greeter.shared_.listener.OnRefused(remote, cluster, reason);
    greeter.shared_.Bury(greeter.Leave(*this));
  }

  Greeter& greeter;
  ByteStream* stream;
  const std::string remote = stream->remote();
  const std::string cluster;  // proven
  const std::string method;
};

Greeter::Greeter(Shared& shared, TunnelRelay& relay, FindPeer find_peer)
    : shared_(shared), relay_(relay), find_peer_(std::move(find_peer)) {}

Greeter::~Greeter() = default;

void Greeter::Stop() {
  for (auto& [key, guest] : guests_) {
    guest->stream->Abandon();
    shared_.Bury(std::move(guest));
  }
  guests_.clear();
}

void Greeter::Refuse(ByteStream* stream, const std::string& cluster, const absl::Status& reason) {
  ++refused_;
  const std::string remote = stream->remote();
  stream->Farewell(std::nullopt, reason);
  shared_.listener.OnRefused(remote, cluster, reason);
}

void Greeter::OnStream(ByteStream* stream, const std::string& method) {
  if (method == kHealthMethod) {
    stream->Farewell(ToByteBuffer(shared_.draining ? kNotServing : kServing), absl::OkStatus());
    return;
  }
  if (shared_.draining) {
    Refuse(stream, "", absl::UnavailableError("this gateway is draining"));
    return;
  }
  if (method != kControlMethod && method != kLaneMethod && method != kTunnelMethod) {
    Refuse(stream, "", absl::UnimplementedError("no such method"));
    return;
  }
  absl::StatusOr<std::string> cluster =
      shared_.config.identity(*stream->auth_context(), stream->remote());
  if (!cluster.ok()) {
    Refuse(stream, "", cluster.status());
    return;
  }
  if (find_peer_(*cluster) == nullptr) {
    Refuse(stream, *cluster,
           absl::PermissionDeniedError(absl::StrCat(
               "cluster ", *cluster, " is not a configured peer of ", shared_.config.cluster)));
    return;
  }
  if (pending() >= kPendingStreamsMax) {
    Refuse(stream, *cluster, absl::ResourceExhaustedError("too many streams wait for their hello"));
    return;
  }
  auto guest = std::make_unique<Guest>(*this, stream, std::move(*cluster), method);
  stream->SetHandler(guest.get());
  stream->SetDeadline(MonotonicNow() + shared_.times.hello_timeout,
                      absl::DeadlineExceededError("no hello in time"));
  guests_.emplace(guest.get(), std::move(guest));
}

std::unique_ptr<Greeter::Guest> Greeter::Leave(Guest& guest) {
  auto found = guests_.find(&guest);
  std::unique_ptr<Guest> left = std::move(found->second);
  guests_.erase(found);
  return left;
}

void Greeter::Hello(Guest& guest, const grpc::ByteBuffer& frame) {
  ByteStream* stream = guest.stream;
  std::unique_ptr<Guest> left = Leave(guest);
  const absl::Status verdict = guest.method == kLaneMethod     ? LaneHello(guest, frame)
                               : guest.method == kTunnelMethod ? TunnelHello(guest, frame)
                                                               : ControlHello(guest, frame);
  if (!verdict.ok()) Refuse(stream, guest.cluster, verdict);
  shared_.Bury(std::move(left));
}

absl::Status Greeter::ControlHello(Guest& guest, const grpc::ByteBuffer& frame) {
  absl::StatusOr<wan::v1::ControlFrame> control = DecodeControl(frame);
  if (!control.ok()) return control.status();
  if (!control->has_hello()) return absl::FailedPreconditionError("a frame before the hello");
  const wan::v1::Hello& hello = control->hello();
  if (hello.cluster() != guest.cluster) {
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate says cluster ", guest.cluster, ", the hello claims another"));
  }
  if (absl::Status check = Link::CheckHello(shared_.config, hello); !check.ok()) return check;
  if (hello.lanes() == 0) return absl::InvalidArgumentError("hello: no lanes");
  return find_peer_(guest.cluster)->Offer(guest.stream, hello, MonotonicNow());
}

absl::Status Greeter::LaneHello(Guest& guest, const grpc::ByteBuffer& frame) {
  absl::StatusOr<ReceivedLaneFrame> received = ReceivedLaneFrame::Read(frame);
  if (!received.ok()) return received.status();
  const auto* hello = std::get_if<LaneHelloFrame>(&received->frame());
  if (hello == nullptr) return absl::FailedPreconditionError("a frame before the hello");
  if (hello->cluster != guest.cluster) {
    return absl::PermissionDeniedError(absl::StrCat("the certificate says cluster ", guest.cluster,
                                                    ", the lane hello claims another"));
  }
  return find_peer_(guest.cluster)->OfferLane(guest.stream, *hello, MonotonicNow());
}

absl::Status Greeter::TunnelHello(Guest& guest, const grpc::ByteBuffer& frame) {
  absl::StatusOr<TunnelHelloFrame> hello = DecodeTunnelHello(frame);
  if (!hello.ok()) return hello.status();
  if (hello->cluster != guest.cluster) {
    return absl::PermissionDeniedError(absl::StrCat("the certificate says cluster ", guest.cluster,
                                                    ", the tunnel hello claims another"));
  }
  return relay_.Admit(guest.stream, *hello, MonotonicNow());
}

}  // namespace causeway::transport
