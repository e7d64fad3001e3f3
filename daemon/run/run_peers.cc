// A run's side towards other gateways: what arrives is checked against the run and handed on.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/message_codec.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

engine::Hash256 ReadHash(const std::string& bytes) {
  engine::Hash256 out{};
  if (bytes.size() == out.size()) std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

engine::StateId ReadState(const wan::v1::StateId& in) {
  return {in.lineage(), in.round(), ReadHash(in.chain())};
}

}  // namespace

void Run::OnPeerUp(const std::string& cluster, uint64_t incarnation) {
  const engine::ClusterId peer = *roster_.Find(cluster);
  bad_chunks_.Forget(peer);
  // Other members may have made known a process that no link leads to yet: what was begun for it
  // meanwhile found none.
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  const bool named = record && peer < record->incarnations.size() &&
                     record->incarnations[peer] >= incarnation;
  SendAgain(peer, network_.OnPeerUp(peer, incarnation, named ? record->epoch : engine::Epoch{}));
  if (exchange_) exchange_->OnPeerUp(peer);
  Drive(engine::PeerConnected{peer});
}

void Run::SendAgain(engine::ClusterId peer, const std::vector<exchange::ChunkAddress>& chunks) {
  for (const exchange::ChunkAddress& address : chunks) {
    if (exchange_) exchange_->SendAgain(peer, address);
  }
}

void Run::OnPeerDown(const std::string& cluster) {
  const engine::ClusterId peer = *roster_.Find(cluster);
  network_.OnPeerDown(peer);
  if (exchange_) exchange_->OnPeerDown(peer);
  Drive(engine::PeerDisconnected{peer});
}

void Run::OnProgress(const std::string& cluster) {
  const engine::ClusterId peer = *roster_.Find(cluster);
  const engine::Incarnation incarnation = network_.engine_incarnation(peer);
  SendAgain(peer, network_.OnProgress(peer));
  if (incarnation != 0) Drive(engine::Progress{peer, incarnation});
}

void Run::OnRunMessage(const std::string& cluster, const wan::v1::RunMessage& message) {
  using Body = wan::v1::RunMessage;
  const engine::ClusterId from = *roster_.Find(cluster);
  const size_t fragments = exchange_ ? exchange_->size() : 0;
  switch (message.body_case()) {
    case Body::kSchemaDetail:
      OnSchemaDetail(from, message.schema_detail());
      return;
    case Body::kHashDetail:
      OnHashDetail(from, message.hash_detail());
      return;
    case Body::kChunkRequest: {
      const wan::v1::ChunkRequest& in = message.chunk_request();
      exchange::ChunkRequest request;
      request.kind = static_cast<exchange::ChunkKind>(in.kind());
      if (in.fragment() >= fragments || !exchange::Requestable(in.kind()) ||
          static_cast<size_t>(in.indices_size()) > exchange::kRequestIndicesMax) {
        return;
      }
      request.fragment = in.fragment();
      request.round = in.round();
      request.indices = {in.indices().begin(), in.indices().end()};
      request.used_up = in.used_up();
      exchange_->OnChunkRequest(from, request);
      return;
    }
    case Body::kLinkReport:
      OnLinkReport(from, message.link_report());
      return;
    case Body::kStateRequest: {
      const wan::v1::StateRequest& in = message.state_request();
      if (in.fragment() >= fragments) return;
      const exchange::PieceSet wanted({in.wanted().begin(), in.wanted().end()});
      exchange_->state(in.fragment()).OnRequest(from, ReadState(in.state()), wanted);
      return;
    }
    case Body::kStateOffer: {
      const wan::v1::StateOffer& offer = message.state_offer();
      if (offer.fragment() >= fragments) return;
      exchange::DonorAnswer answer{offer.found(), ReadHash(offer.state_hash()), {}};
      const int words = std::min<int>(offer.rule_words_size(), outer::kRuleWordsMax);
      answer.words.assign(offer.rule_words().begin(), offer.rule_words().begin() + words);
      exchange_->state(offer.fragment()).OnOffer(from, ReadState(offer.state()), answer);
      return;
    }
    default:
      break;
  }
  absl::StatusOr<engine::Envelope> envelope = DecodeEnvelope(roster_, message);
  if (envelope.ok()) {
    if (const auto* plan = std::get_if<engine::Plan>(&envelope->message)) {
      if (absl::Status good = planning_.Check(*plan); !good.ok()) envelope = good;
    }
  }
  if (!envelope.ok()) {
    around_.metrics->authorisation_denied.With({"protocol"}).Add(1);
    around_.log->Warning(event::kPeerRefused, {{"run", name()}, {"peer", cluster}},
                         absl::StrCat("message dropped: ", envelope.status().message()));
    return;
  }
  network_.NoteEngine(from, envelope->header.from_incarnation);
  Drive(engine::Received{from, *std::move(envelope)});
}

void Run::OnChunk(const std::string& cluster, const transport::ChunkHeader& header,
                  memory::Buffer payload) {
  const engine::ClusterId from = *roster_.Find(cluster);
  std::optional<exchange::ChunkAddress> address = network_.Address(header);
  if (!exchange_ || !address) {
    network_.ReturnCredit(from, payload.size());
    return;
  }
  chunk_bytes_received_ += payload.size();
  around_.metrics->payload_bytes.With({name(), "received"})
      .Add(static_cast<double>(payload.size()));
  exchange_->OnChunk(from, *address, std::move(payload));
}

void Run::OnChunkDone(const std::string& cluster, const transport::ChunkHeader& header,
                      const absl::Status& status) {
  const engine::ClusterId peer = *roster_.Find(cluster);
  const std::optional<exchange::ChunkAddress> address = network_.Address(header);
  if (!address) return;
  if (address->kind == exchange::ChunkKind::kState) {
    if (exchange_) exchange_->OnStateChunkDone(address->fragment);
    return;
  }
  SendAgain(peer, network_.OnChunkDone(peer, *address, status));
}

}  // namespace causeway::run
