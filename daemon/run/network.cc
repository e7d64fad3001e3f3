// Sending fails only where the link is gone or its queue is full; both are repaired here, so
// failures are not errors.
#include "daemon/run/network.h"

#include <utility>

#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

// State for a joiner yields to every round.
constexpr uint64_t kStatePriority = uint64_t{1} << 62;
// Chunks that found no room and are tried again each time that the peer is heard.
constexpr size_t kLostRetriedMax = 64;

// Rounds in their order in the run: the oldest goes first.
uint64_t PriorityOf(const exchange::ChunkAddress& address) {
  if (address.kind == exchange::ChunkKind::kState) return kStatePriority;
  return static_cast<uint64_t>(address.round) * engine::kFragmentsMax + address.fragment;
}

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

std::vector<exchange::ChunkAddress> RunNetwork::OnPeerUp(engine::ClusterId id,
                                                         uint64_t incarnation,
                                                         engine::Epoch epoch) {
  Peer& peer = peers_[id];
  const bool same = peer.incarnation == incarnation;
  peer.connected = true;
  peer.incarnation = incarnation;
  std::vector<exchange::ChunkAddress> again = TakeLost(peer, peer.lost.size());
  if (same) return again;
  peer.engine_incarnation = 0;
  std::erase_if(again, [epoch](const exchange::ChunkAddress& address) {
    return epoch.None() || address.epoch != epoch;
  });
  return again;
}

void RunNetwork::OnPeerDown(engine::ClusterId peer) { peers_[peer].connected = false; }

void RunNetwork::Lose(Peer& peer, const exchange::ChunkAddress& address) {
  if (peer.lost.size() < transport::kChunksQueuedMax) peer.lost.insert(address);
}

std::vector<exchange::ChunkAddress> RunNetwork::TakeLost(Peer& peer, size_t most) {
  std::vector<exchange::ChunkAddress> out;
  while (!peer.lost.empty() && out.size() < most) {
    out.push_back(*peer.lost.begin());
    peer.lost.erase(peer.lost.begin());
  }
  return out;
}

std::vector<exchange::ChunkAddress> RunNetwork::OnChunkDone(engine::ClusterId id,
                                                            const exchange::ChunkAddress& address,
                                                            const absl::Status& status) {
  Peer& peer = peers_[id];
  const auto sent = peer.in_flight.find(address);
  if (sent == peer.in_flight.end()) return {};
  const bool again = sent->second;
  peer.in_flight.erase(sent);
  if (absl::IsUnavailable(status)) {
    Lose(peer, address);
    return {};
  }
  // Each chunk that is done makes room for one.
  if (again && status.ok()) return {address};
  return peer.connected ? TakeLost(peer, 1) : std::vector<exchange::ChunkAddress>();
}

std::vector<exchange::ChunkAddress> RunNetwork::OnProgress(engine::ClusterId id) {
  return peers_[id].connected ? TakeLost(peers_[id], kLostRetriedMax)
                              : std::vector<exchange::ChunkAddress>();
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
  out.attempt = address.attempt;
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
  out.attempt = header.attempt;
  out.incarnation = header.incarnation;
  out.index = header.index;
  return out;
}

bool RunNetwork::SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                           memory::SharedBuffer payload, bool again) {
  Peer& peer = peers_[to];
  const bool tracked = address.kind != exchange::ChunkKind::kState;
  if (tracked) {
    const auto sent = peer.in_flight.find(address);
    if (sent != peer.in_flight.end()) {
      sent->second = sent->second || again;
      return true;
    }
  }
  const uint64_t bytes = payload.size();
  const absl::Status sent = transport_->SendChunk(roster_.Name(to), Header(address),
                                                  std::move(payload), PriorityOf(address));
  if (sent.ok()) chunk_bytes_sent_ += bytes;
  if (!tracked) return sent.ok();
  if (sent.ok()) {
    peer.in_flight.emplace(address, false);
    peer.lost.erase(address);
  } else {
    Lose(peer, address);
  }
  return sent.ok();
}

void RunNetwork::CancelChunks(exchange::ChunkKind kind, engine::FragmentId fragment,
                              engine::RoundNumber round) {
  for (int id = 0; id < roster_.size(); ++id) {
    if (id == self_) continue;
    std::set<exchange::ChunkAddress>& lost = peers_[static_cast<size_t>(id)].lost;
    for (auto it = lost.begin(); it != lost.end();) {
      const bool dead = it->kind == kind && it->fragment == fragment && it->round <= round;
      it = dead ? lost.erase(it) : std::next(it);
    }
    transport_->CancelChunks(
        roster_.Name(static_cast<engine::ClusterId>(id)),
        [run = run_, wanted = static_cast<transport::ChunkKind>(kind), fragment,
         round](const transport::ChunkHeader& header) {
          return header.run == run && header.kind == wanted && header.fragment == fragment &&
                 header.round <= round;
        });
  }
}

void RunNetwork::ReturnCredit(engine::ClusterId from, uint64_t bytes) {
  transport_->ReturnCredit(roster_.Name(from), run_, bytes);
}

void RunNetwork::RequestChunks(engine::ClusterId from, const exchange::ChunkRequest& request) {
  wan::v1::RunMessage message;
  wan::v1::ChunkRequest* out = message.mutable_chunk_request();
  out->set_fragment(request.fragment);
  out->set_round(request.round);
  for (uint32_t index : request.indices) out->add_indices(index);
  out->set_kind(static_cast<uint32_t>(request.kind));
  out->set_used_up(request.used_up);
  Send(from, std::move(message));
}

void RunNetwork::RequestState(engine::ClusterId from, engine::FragmentId fragment,
                              const engine::StateId& state, const exchange::PieceSet& wanted) {
  wan::v1::RunMessage message;
  wan::v1::StateRequest* out = message.mutable_state_request();
  out->set_fragment(fragment);
  SetState(state, out->mutable_state());
  out->set_wanted(wanted.bits().data(), wanted.bits().size());
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
