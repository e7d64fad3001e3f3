// Sending fails only where the link is gone or its queue is full; both are repaired above, so
// failures are not errors here.
#include "daemon/run/network.h"

#include <utility>

#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

// State for a joiner yields to every round.
constexpr uint64_t kStatePriority = uint64_t{1} << 62;

std::string HashBytes(const engine::Hash256& hash) {
  return std::string(reinterpret_cast<const char*>(hash.data()), hash.size());
}

void SetState(const engine::StateId& in, wan::v1::StateId* out) {
  out->set_lineage(in.lineage);
  out->set_round(in.round);
  if (!engine::IsZero(in.chain)) out->set_chain(HashBytes(in.chain));
}

}  // namespace

RunNetwork::RunNetwork(std::string run, const Roster& roster, engine::ClusterId self,
                       transport::Transport* transport)
    : run_(std::move(run)),
      roster_(roster),
      self_(self),
      transport_(transport),
      peers_(static_cast<size_t>(roster.size())) {}

void RunNetwork::SetWindow(uint64_t bytes) {
  for (int id = 0; id < roster_.size(); ++id) {
    if (id == self_) continue;
    const auto cluster = static_cast<engine::ClusterId>(id);
    transport_->SetWindow(roster_.Name(cluster), run_, bytes).IgnoreError();  // bounds: see caller
  }
}

void RunNetwork::Send(engine::ClusterId to, const engine::Envelope& envelope) {
  Send(to, EncodeEnvelope(run_, roster_, envelope));
}

void RunNetwork::Send(engine::ClusterId to, wan::v1::RunMessage message) {
  if (!peers_[to].connected) return;
  message.set_run(run_);
  transport_->SendRunMessage(roster_.Name(to), message).IgnoreError();
}

void RunNetwork::OnPeerUp(engine::ClusterId id, uint64_t incarnation,
                          const std::function<void(const exchange::ChunkAddress&)>& again) {
  Peer& peer = peers_[id];
  const bool same = peer.incarnation == incarnation;
  peer.connected = true;
  peer.incarnation = incarnation;
  std::vector<exchange::ChunkAddress> lost = std::exchange(peer.lost, {});
  if (!same) {
    peer.engine_incarnation = 0;
    return;
  }
  for (const exchange::ChunkAddress& address : lost) again(address);
}

void RunNetwork::OnPeerDown(engine::ClusterId peer) { peers_[peer].connected = false; }

void RunNetwork::OnChunkDone(engine::ClusterId peer, const transport::ChunkHeader& header,
                             const absl::Status& status) {
  if (status.code() != absl::StatusCode::kUnavailable) return;
  std::optional<exchange::ChunkAddress> address = Address(header);
  if (address && peers_[peer].lost.size() < transport::kChunksQueuedMax) {
    peers_[peer].lost.push_back(*address);
  }
}

transport::ChunkHeader RunNetwork::Header(const exchange::ChunkAddress& address) const {
  transport::ChunkHeader out;
  out.run = run_;
  if (!address.epoch.None()) {
    out.epoch = {address.epoch.counter, roster_.Name(address.epoch.candidate)};
  }
  out.lineage = static_cast<decltype(out.lineage)>(address.lineage);
  out.fragment = address.fragment;
  out.round = address.round;
  out.incarnation = address.incarnation;
  out.kind = static_cast<transport::ChunkKind>(address.kind);
  out.index = address.index;
  return out;
}

std::optional<exchange::ChunkAddress> RunNetwork::Address(
    const transport::ChunkHeader& header) const {
  exchange::ChunkAddress out;
  if (header.epoch.counter != 0) {
    const std::optional<engine::ClusterId> candidate = roster_.Find(header.epoch.candidate);
    if (!candidate) return std::nullopt;
    out.epoch = {header.epoch.counter, *candidate};
  }
  switch (header.kind) {
    case transport::ChunkKind::kContribution:
    case transport::ChunkKind::kResult:
    case transport::ChunkKind::kState:
      out.kind = static_cast<exchange::ChunkKind>(header.kind);
      break;
    default:
      return std::nullopt;
  }
  out.lineage = header.lineage;
  out.fragment = header.fragment;
  out.round = header.round;
  out.incarnation = header.incarnation;
  out.index = header.index;
  return out;
}

void RunNetwork::SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                           memory::SharedBuffer payload) {
  const uint64_t bytes = payload.size();
  const uint64_t priority = address.kind == exchange::ChunkKind::kState
                                ? kStatePriority
                                : static_cast<uint64_t>(address.round);
  const absl::Status sent =
      transport_->SendChunk(roster_.Name(to), Header(address), std::move(payload), priority);
  if (sent.ok()) {
    chunk_bytes_sent_ += bytes;
  } else if (peers_[to].lost.size() < transport::kChunksQueuedMax) {
    peers_[to].lost.push_back(address);
  }
}

void RunNetwork::CancelChunks(engine::FragmentId fragment, engine::RoundNumber round) {
  for (int id = 0; id < roster_.size(); ++id) {
    if (id == self_) continue;
    transport_->CancelChunks(roster_.Name(static_cast<engine::ClusterId>(id)),
                             [run = run_, fragment, round](const transport::ChunkHeader& header) {
                               return header.run == run &&
                                      header.kind == transport::ChunkKind::kContribution &&
                                      header.fragment == fragment && header.round <= round;
                             });
  }
}

void RunNetwork::ReturnCredit(engine::ClusterId from, uint64_t bytes) {
  transport_->ReturnCredit(roster_.Name(from), run_, bytes);
}

void RunNetwork::RequestChunks(engine::ClusterId from, engine::FragmentId fragment,
                               engine::RoundNumber round, const std::vector<uint32_t>& indices) {
  wan::v1::RunMessage message;
  wan::v1::ChunkRequest* request = message.mutable_chunk_request();
  request->set_fragment(fragment);
  request->set_round(round);
  for (uint32_t index : indices) request->add_indices(index);
  Send(from, std::move(message));
}

void RunNetwork::RequestState(engine::ClusterId from, engine::FragmentId fragment,
                              const engine::StateId& state) {
  wan::v1::RunMessage message;
  message.mutable_state_request()->set_fragment(fragment);
  SetState(state, message.mutable_state_request()->mutable_state());
  Send(from, std::move(message));
}

void RunNetwork::OfferState(engine::ClusterId to, engine::FragmentId fragment,
                            const engine::StateId& state, const exchange::DonorAnswer& answer) {
  wan::v1::RunMessage message;
  wan::v1::StateOffer* offer = message.mutable_state_offer();
  offer->set_fragment(fragment);
  SetState(state, offer->mutable_state());
  offer->set_found(answer.found);
  if (answer.found) offer->set_state_hash(HashBytes(answer.hash));
  for (engine::Hash64 word : answer.words) offer->add_rule_words(word);
  Send(to, std::move(message));
}

}  // namespace causeway::run
