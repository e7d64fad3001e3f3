// Sending, and the one rule about disks: a promise or an acceptance leaves only after it is
// durable.
#include "daemon/engine/context.h"

#include <algorithm>
#include <cassert>

namespace causeway::engine {

Context::Context(Config config_in, Durable durable_in, uint64_t random_seed)
    : config(std::move(config_in)),
      random(random_seed),
      peers(config.clusters, config.self, config.peer_timeout),
      durable(std::move(durable_in)),
      horizon(config.clusters, std::max(durable.promised.counter,
                                        durable.accepted ? durable.accepted->epoch.counter : 0)) {
  assert(config.clusters >= 1 && config.clusters <= kClustersMax);
  assert(config.self < config.clusters && config.incarnation != 0);
  assert(config.hash && "the engine needs a hash function");
  assert(durable.promised.counter <= kEpochCounterMax);
  counter_seen = durable.promised.counter;
  if (durable.accepted) counter_seen = std::max(counter_seen, durable.accepted->epoch.counter);
}

bool Context::Outdated() const {
  for (int id = 0; id < config.clusters; ++id) {
    const Report* report = peers.LiveReport(static_cast<ClusterId>(id), now);
    if (report && report->active && (!HasRecord() || report->accepted > record().epoch))
      return true;
  }
  return false;
}

bool Context::RunExists() const {
  if (HasRecord()) return true;
  for (int id = 0; id < config.clusters; ++id) {
    const Peer& peer = peers[static_cast<ClusterId>(id)];
    if (peer.report && !peer.report->accepted.None()) return true;
  }
  return false;
}

std::optional<Growth> Context::GrowthWish() const {
  if (!trainer.present || !HasRecord()) return std::nullopt;
  if (!trainer.Extends({record().schema, static_cast<uint32_t>(record().base.size())})) {
    return std::nullopt;
  }
  return Growth{record().schema, {trainer.schema, trainer.fragments}, trainer.parameters};
}

bool Context::RollbackApproved() const {
  if (rollback_approved) return true;
  for (int id = 0; id < config.clusters; ++id) {
    const Report* report = peers.LiveReport(static_cast<ClusterId>(id), now);
    if (report && report->approves_rollback) return true;
  }
  return false;
}

ClusterSet Context::Silent() const {
  ClusterSet silent;
  for (int id = 0; id < config.clusters; ++id) {
    const ClusterId peer = static_cast<ClusterId>(id);
    const bool had_time = peers[peer].ever_heard || now - started_at > config.peer_timeout;
    if (had_time && !peers.Alive(peer, now)) silent.Insert(peer);
  }
  return silent;
}

ClusterSet Context::OutOfTouch() const {
  ClusterSet out;
  for (int id = 0; id < config.clusters; ++id) {
    const ClusterId here = static_cast<ClusterId>(id);
    const Report* report = peers.LiveReport(here, now);
    if (!report) continue;
    for (ClusterId there : report->suspected) {
      if (out.Contains(here)) break;
      if (there == self()) {
        out.Insert(here);
      } else if (!out.Contains(there) && peers.LiveReport(there, now)) {
        out.Insert(std::max(here, there));
      }
    }
  }
  return out;
}

std::optional<Header> Context::HeaderFor(ClusterId to, const Epoch& epoch, Lineage lineage,
                                         const Message& message) const {
  assert(to != self() && to < config.clusters);
  const Incarnation known = peers[to].incarnation;
  const bool early =
      std::holds_alternative<Join>(message) || std::holds_alternative<Heartbeat>(message);
  if (known == 0 && !early) return std::nullopt;
  return Header{epoch, lineage, config.incarnation, known, founding()};
}

void Context::Send(ClusterId to, Message&& message) {
  const Epoch epoch = HasRecord() ? record().epoch : Epoch{};
  SendIn(to, epoch, HasRecord() ? record().lineage : 0, std::move(message));
}

void Context::SendIn(ClusterId to, const Epoch& epoch, Lineage lineage, Message&& message) {
  const std::optional<Header> header = HeaderFor(to, epoch, lineage, message);
  if (!header) return;
  auto& send = std::get<engine::Send>(actions_.emplace_back(std::in_place_type<engine::Send>));
  send.to = to;
  send.envelope.header = *header;
  send.envelope.message = std::move(message);
}

void Context::SendToMembers(const Message& message) {
  for (ClusterId to : Others()) Send(to, Message(message));
}

uint64_t Context::Persist() {
  Act(engine::Persist{++token_, durable});
  return token_;
}

void Context::SendWhenDurable(ClusterId to, const Epoch& epoch, Lineage lineage, Message message) {
  if (IsDurable(token_)) {
    SendIn(to, epoch, lineage, std::move(message));
    return;
  }
  const std::optional<Header> header = HeaderFor(to, epoch, lineage, message);
  if (!header) return;
  // Bounded: a disk that is slower than the repeats must not collect them.
  if (held_.size() >= static_cast<size_t>(4 * config.clusters)) held_.erase(held_.begin());
  held_.push_back({token_, engine::Send{to, {*header, std::move(message)}}});
}

void Context::OnPersisted(uint64_t token) {
  assert(token <= token_);
  durable_token_ = std::max(durable_token_, token);
  std::vector<Held> rest;
  for (Held& held : held_) {
    if (held.token <= durable_token_) {
      Act(std::move(held.action));
    } else {
      rest.push_back(std::move(held));
    }
  }
  held_ = std::move(rest);
}

}  // namespace causeway::engine
