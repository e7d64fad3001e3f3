// A map of small vectors: a fragment has few senders and one or two rounds in flight.
#include "daemon/exchange/inbox.h"

#include <limits>
#include <utility>

namespace causeway::exchange {

Inbox::Name Inbox::NameOf(engine::ClusterId from, const ChunkAddress& address) {
  const bool result = address.kind == ChunkKind::kResult;
  return {from,          address.incarnation,           address.epoch,
          address.round, result ? address.attempt : 0u, address.kind};
}

Inbox::~Inbox() { DropAll(); }

// Null: the sender has newer ones only, and as many as it may.
std::vector<Inbox::Place>* Inbox::PlacesOf(const Name& name) {
  auto it = held_.find(name);
  if (it == held_.end()) {
    if (!MakeRoom(name)) return nullptr;
    it = held_.emplace(name, std::vector<Place>(chunks_)).first;
  }
  return &it->second;
}

bool Inbox::Put(const Name& name, uint32_t index, memory::SharedBuffer payload) {
  const uint64_t bytes = payload.size();
  std::vector<Place>* places = index < chunks_ ? PlacesOf(name) : nullptr;
  if (places == nullptr || (*places)[index].taken) {
    drop_(name.from, bytes);
    return false;
  }
  (*places)[index] = {std::move(payload), true, false};
  bytes_[name.from] += bytes;
  return true;
}

bool Inbox::MakeRoom(const Name& name) {
  Name lowest;
  lowest.from = name.from;
  lowest.round = std::numeric_limits<engine::RoundNumber>::min();
  const auto first = held_.lower_bound(lowest);
  size_t count = 0;
  for (auto it = first; it != held_.end() && it->first.from == name.from; ++it) ++count;
  if (count < kInboxNamesMax) return true;
  if (name < first->first) return false;
  DropPlaces(first->first, first->second);
  held_.erase(first);
  return true;
}

const memory::SharedBuffer* Inbox::Find(const Name& name, uint32_t index) const {
  const auto it = held_.find(name);
  if (it == held_.end() || it->second[index].payload.data() == nullptr) return nullptr;
  return &it->second[index].payload;
}

bool Inbox::Consumed(const Name& name, uint32_t index) const {
  const auto it = held_.find(name);
  return it != held_.end() && it->second[index].taken &&
         it->second[index].payload.data() == nullptr;
}

void Inbox::Consume(const Name& name, uint32_t index) {
  const auto it = held_.find(name);
  if (it == held_.end()) return;
  Place& place = it->second[index];
  if (place.payload.data() == nullptr) return;
  Drop(name.from, place.payload.size());
  place.payload = {};
}

void Inbox::Drop(engine::ClusterId from, uint64_t bytes) {
  bytes_[from] -= bytes;
  drop_(from, bytes);
}

void Inbox::Discard(const Name& name, uint32_t index) {
  Consume(name, index);
  const auto it = held_.find(name);
  if (it != held_.end()) it->second[index] = {};
}

void Inbox::Ask(const Name& name, uint32_t index) {
  std::vector<Place>* places = PlacesOf(name);
  if (places == nullptr || (*places)[index].payload.data() != nullptr) return;
  (*places)[index] = {{}, false, true};
}

std::vector<uint32_t> Inbox::Asked(const Name& name) const {
  std::vector<uint32_t> out;
  const auto it = held_.find(name);
  if (it == held_.end()) return out;
  for (uint32_t index = 0; index < chunks_; ++index) {
    if (it->second[index].asked) out.push_back(index);
  }
  return out;
}

void Inbox::DropPlaces(const Name& name, std::vector<Place>& places) {
  for (Place& place : places) {
    if (place.payload.data() != nullptr) Drop(name.from, place.payload.size());
  }
}

template <typename Predicate>
void Inbox::DropIf(Predicate predicate) {
  for (auto it = held_.begin(); it != held_.end();) {
    if (predicate(it->first)) {
      DropPlaces(it->first, it->second);
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
}

void Inbox::DropRounds(engine::RoundNumber round) {
  DropIf([round](const Name& name) { return name.round <= round; });
}

void Inbox::DropResultsBefore(engine::Epoch epoch, engine::RoundNumber round,
                              engine::Attempt attempt) {
  DropIf([&](const Name& name) {
    return name.kind == ChunkKind::kResult && name.epoch == epoch && name.round == round &&
           name.attempt < attempt;
  });
}

void Inbox::DropEpochsBelow(engine::Epoch epoch) {
  DropIf([epoch](const Name& name) { return name.epoch < epoch; });
}

void Inbox::DropAll() {
  DropIf([](const Name&) { return true; });
}

}  // namespace causeway::exchange
