// How a link begins: both sides say and check hello.
#include <grpcpp/channel.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/grpc_status.h"
#include "daemon/transport/link.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

// host:port of this very host, whoever asks.
bool LeadsBackHere(const std::string& address) {
  constexpr const char* kLoopbacks[] = {
      "127.", "0.", "localhost:", "[::1]:", "[::]:", "[::ffff:127."};
  return std::any_of(std::begin(kLoopbacks), std::end(kLoopbacks),
                     [&](const char* prefix) { return address.rfind(prefix, 0) == 0; });
}

}  // namespace

absl::Status Link::CheckHello(const TransportConfig& config, const wan::v1::Hello& hello) {
  if (hello.cluster().size() > kNameBytesMax || hello.software().size() > kTextBytesMax) {
    return absl::InvalidArgumentError("hello: a name or text is too long");
  }
  if (hello.incarnation() == 0 || hello.link() == 0) {
    return absl::InvalidArgumentError("hello: incarnation and link must not be 0");
  }
  if (std::max(config.version_min, hello.version_min()) >
      std::min(config.version_max, hello.version_max())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no common protocol version: cluster ", config.cluster, " speaks ", config.version_min,
        " to ", config.version_max, ", cluster ", PrintableText(hello.cluster()), " speaks ",
        hello.version_min(), " to ", hello.version_max(), "; upgrade the older gateway"));
  }
  return absl::OkStatus();
}

void Link::Dial(absl::Time now, absl::Duration patience) {
  dialled_here_ = true;
  info_.dialled_here = true;
  received_at_ = ticked_at_ = now;
  do {
    info_.link = shared_.random();
  } while (info_.link == 0);
  // All connections begin at once: waiting in turn costs three round trips a lane.
  const PeerConfig target = peer_.Target();
  std::shared_ptr<grpc::Channel> channel = shared_.Dial(target, Use::kControl);
  for (int i = 0; i < peer_.lanes.wanted(); ++i) {
    lane_channels_.push_back(shared_.Dial(target, Use::kBulk));
  }
  hello_due_ = true;
  stream_ = DialStream(shared_.streams, shared_.poller, std::move(channel), kControlMethod, this);
  stream_->SetDeadline(now + patience, absl::DeadlineExceededError(absl::StrCat(
                                           "no connection and hello from ", target.address,
                                           " within ", absl::FormatDuration(patience))));
}

void Link::Accept(ByteStream* stream, const wan::v1::Hello& hello, absl::Time now) {
  stream_ = stream;
  stream_->SetHandler(this);
  stream_->ClearDeadline();
  received_at_ = ticked_at_ = now;
  info_.link = hello.link();
  lanes_.resize(std::min<size_t>(hello.lanes(), shared_.lanes_share));
  hello_due_ = true;
  PumpControl();
  Up(hello, now);
}

void Link::SayHello(wan::v1::Hello& hello) {
  hello_due_ = false;
  hello_sent_ = true;
  hello_sent_at_ = MonotonicNow();
  hello.set_version_min(shared_.config.version_min);
  hello.set_version_max(shared_.config.version_max);
  hello.set_cluster(shared_.config.cluster);
  hello.set_incarnation(shared_.config.incarnation);
  hello.set_software(shared_.config.software);
  hello.set_lanes(dialled_here_ ? static_cast<uint32_t>(peer_.lanes.most())
                                : static_cast<uint32_t>(lanes_.size()));
  hello.set_link(info_.link);
  hello.set_address(shared_.config.advertise);
}

void Link::OnHello(const wan::v1::Hello& hello) {
  if (up_) {
    OnViolation(absl::FailedPreconditionError("a second hello"));
    return;
  }
  absl::Status check = CheckHello(shared_.config, hello);
  if (check.ok()) {
    absl::StatusOr<std::string> proven =
        shared_.config.identity(*stream_->auth_context(), stream_->remote());
    if (!proven.ok()) {
      check = proven.status();
    } else if (*proven != peer_.config.cluster || hello.cluster() != peer_.config.cluster) {
      check = absl::PermissionDeniedError(
          absl::StrCat("dialled cluster ", peer_.config.cluster, " at ", peer_.config.address,
                       ", but its certificate says ", PrintableText(*proven), " and its hello ",
                       PrintableText(hello.cluster())));
    } else if (hello.link() != info_.link) {
      check = absl::InvalidArgumentError("hello: answers another link");
    }
  }
  if (!check.ok()) {
    OnViolation(check);
    return;
  }
  owner_.OnLinkAnswered(*this, hello.incarnation());
  const absl::Time now = MonotonicNow();
  stream_->ClearDeadline();
  rtt_.Sample(now, now - hello_sent_at_);
  lanes_.resize(std::min<size_t>(hello.lanes(), static_cast<size_t>(peer_.lanes.most())));
  Up(hello, now);
  for (uint32_t i = 0; !ended_ && static_cast<int>(i) < lanes_wanted_; ++i) DialLane(i, now);
  lane_channels_.clear();
}

void Link::Up(const wan::v1::Hello& hello, absl::Time now) {
  up_ = true;
  incarnation_ = hello.incarnation();
  info_.version = std::min(shared_.config.version_max, hello.version_max());
  info_.peer_software = PrintableText(hello.software());
  info_.remote = stream_->remote();
  LearnAddress(hello.address());
  received_at_ = frame_at_ = now;
  heartbeat_at_ = now;
  heartbeat_due_ = true;
  SendLaneWish();
  peer_.credits.BeginLink();
  owner_.OnLinkUp(*this);
  if (!ended_) SendGrants(/*all=*/true);
}

// From a peer that is proven to be who it says, and whoever answers there must prove the same.
void Link::LearnAddress(const std::string& address) {
  const bool wanted = peer_.config.address.empty() && peer_.config.credentials != nullptr;
  if (!wanted || address.empty() || address == peer_.advertised) return;
  if (address.size() > kAddressBytesMax || PrintableText(address) != address ||
      LeadsBackHere(address)) {
    shared_.listener.OnRefused(
        info_.remote, peer_.config.cluster,
        absl::InvalidArgumentError(absl::StrCat(
            "advertises an address that leads back here or is none: ", PrintableText(address))));
    return;
  }
  peer_.advertised = address;
}

}  // namespace causeway::transport
