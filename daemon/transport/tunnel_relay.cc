#include "daemon/transport/tunnel_relay.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/shared.h"
#include "daemon/transport/tcp_sockets.h"

namespace causeway::transport {

// Two streams, each the other's source and sink.
class TunnelRelay::Splice {
 public:
  Splice(TunnelRelay& relay, uint64_t id, std::string from, std::string to, Pair& pair)
      : id(id), from(std::move(from)), to(std::move(to)), relay_(relay), pair_(pair) {
    for (int i = 0; i < 2; ++i) sides_[i].Init(this, &sides_[1 - i]);
    ++pair_.tunnels;
  }
  ~Splice() {
    --pair_.tunnels;
    for (Side& side : sides_) {
      if (side.stream != nullptr) side.stream->Abandon();
    }
  }

  bool answered() const { return sides_[1].stream != nullptr; }

  void Opened(ByteStream* stream, absl::Time deadline) {
    Take(sides_[0], stream);
    stream->SetDeadline(deadline, absl::DeadlineExceededError(
                                      absl::StrCat("cluster ", to, " did not come to its end")));
  }

  void Answered(ByteStream* stream) {
    Take(sides_[1], stream);
    sides_[0].stream->ClearDeadline();
    sides_[0].Pass();
  }

  void End(const absl::Status& reason) {
    for (Side& side : sides_) {
      if (ByteStream* stream = std::exchange(side.stream, nullptr); stream != nullptr) {
        stream->Farewell(std::nullopt, reason);
      }
    }
    relay_.Over(this);
  }

  const uint64_t id;
  const std::string from;
  const std::string to;

 private:
  struct Side final : ByteStream::Handler {
    void Init(Splice* owner, Side* opposite) {
      splice = owner;
      other = opposite;
    }

    void OnRead(const grpc::ByteBuffer& frame) override {
      waiting = frame;
      stream->HoldReads(true);
      Pass();
    }
    void OnWritten() override { other->Pass(); }
    void OnClosed(const absl::Status& reason) override {
      stream = nullptr;
      splice->End(reason);
    }
    // On to the other side, if it takes it.
    void Pass() {
      if (!waiting.has_value() || other->stream == nullptr || !other->stream->writable()) return;
      splice->pair_.bytes += waiting->Length();
      other->stream->Write(*waiting);
      waiting.reset();
      stream->HoldReads(false);
    }

    Splice* splice = nullptr;
    Side* other = nullptr;
    ByteStream* stream = nullptr;
    std::optional<grpc::ByteBuffer> waiting;
  };

  static void Take(Side& side, ByteStream* stream) {
    side.stream = stream;
    stream->SetHandler(&side);
    stream->ClearDeadline();
    LimitUnsent(stream->remote(), kUnsentBytesMax);
  }

  TunnelRelay& relay_;
  Pair& pair_;
  std::array<Side, 2> sides_;
};

TunnelRelay::TunnelRelay(Shared& shared, Offer offer)
    : shared_(shared),
      offer_(std::move(offer)),
      tunnels_each_(
          std::clamp(kTunnelsTotalMax / std::max(1, static_cast<int>(shared.config.relay.size())),
                     kTunnelsPerPairMin, kTunnelsPerPairMax)) {
  for (const PairName& pair : shared_.config.relay) pairs_[pair];
}

TunnelRelay::~TunnelRelay() = default;

absl::Status TunnelRelay::Admit(ByteStream* stream, const TunnelHelloFrame& hello, absl::Time now) {
  return hello.to.empty() ? Answer(stream, hello) : Open(stream, hello, now);
}

absl::Status TunnelRelay::Open(ByteStream* stream, const TunnelHelloFrame& hello, absl::Time now) {
  auto pair = pairs_.find(std::minmax(hello.cluster, hello.to));
  if (pair == pairs_.end()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cluster ", shared_.config.cluster, " relays nothing between clusters ", hello.cluster,
        " and ", hello.to, "; its configuration's `relay` must say so"));
  }
  if (pair->second.tunnels >= tunnels_each_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("clusters ", hello.cluster, " and ", hello.to, " have the ", tunnels_each_,
                     " tunnels that are a pair's share of this relay; let them use fewer lanes"));
  }
  uint64_t id = 0;
  while (id == 0 || splices_.count(id) != 0) id = shared_.random();
  if (!offer_(hello.to, id, hello.cluster)) {
    return absl::UnavailableError(
        absl::StrCat("cluster ", hello.to, " has no link to this relay now"));
  }
  std::unique_ptr<Splice>& splice = splices_[id];
  splice = std::make_unique<Splice>(*this, id, hello.cluster, hello.to, pair->second);
  splice->Opened(stream, now + shared_.times.hello_timeout);
  return absl::OkStatus();
}

absl::Status TunnelRelay::Answer(ByteStream* stream, const TunnelHelloFrame& hello) {
  auto found = splices_.find(hello.tunnel);
  if (found == splices_.end() || found->second->to != hello.cluster || found->second->answered()) {
    return absl::FailedPreconditionError("the tunnel was not offered, or is over");
  }
  found->second->Answered(stream);
  return absl::OkStatus();
}

void TunnelRelay::Over(Splice* splice) {
  auto found = splices_.find(splice->id);
  if (found == splices_.end()) return;
  shared_.Bury(std::move(found->second));
  splices_.erase(found);
}

void TunnelRelay::End(const std::string& cluster, const absl::Status& reason) {
  std::vector<Splice*> ending;
  for (auto& [id, splice] : splices_) {
    if (cluster.empty() || splice->from == cluster || splice->to == cluster) {
      ending.push_back(splice.get());
    }
  }
  for (Splice* splice : ending) splice->End(reason);
}

std::vector<RelayedPair> TunnelRelay::Status() const {
  std::vector<RelayedPair> status;
  for (const auto& [name, pair] : pairs_) {
    status.push_back({name.first, name.second, pair.tunnels, pair.bytes});
  }
  return status;
}

}  // namespace causeway::transport
