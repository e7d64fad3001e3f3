// A map of small vectors: a fragment has few senders and one or two rounds in flight.
#include "daemon/exchange/inbox.h"

#include <limits>
#include <utility>

namespace causeway::exchange {

Inbox::~Inbox() { DropAll(); }

bool Inbox::Put(engine::ClusterId from, const ChunkAddress& address, memory::SharedBuffer payload) {
  const uint64_t bytes = payload.size();
  const Key key{from, address.incarnation, address.epoch, address.round};
  auto it = held_.find(key);
  if (it == held_.end()) {
    if (address.index >= chunks_ || !MakeRoom(key)) {
      drop_(from, bytes);
      return false;
    }
    it = held_.emplace(key, std::vector<Place>(chunks_)).first;
  }
  if (address.index >= chunks_ || it->second[address.index].taken) {
    drop_(from, bytes);
    return false;
  }
  it->second[address.index] = {std::move(payload), true};
  return true;
}

// False: the sender has newer ones only. Keys ascend by sender, life, epoch and round.
bool Inbox::MakeRoom(const Key& key) {
  const auto first = held_.lower_bound(Key{key.from, 0, {}, std::numeric_limits<int64_t>::min()});
  size_t count = 0;
  for (auto it = first; it != held_.end() && it->first.from == key.from; ++it) ++count;
  if (count < kInboxRoundsMax) return true;
  if (key < first->first) return false;
  DropPlaces(first->first, first->second);
  held_.erase(first);
  return true;
}

const memory::SharedBuffer* Inbox::Find(engine::ClusterId from, engine::Incarnation incarnation,
                                        engine::Epoch epoch, engine::RoundNumber round,
                                        uint32_t index) const {
  auto it = held_.find({from, incarnation, epoch, round});
  if (it == held_.end() || it->second[index].payload.data() == nullptr) return nullptr;
  return &it->second[index].payload;
}

bool Inbox::Consumed(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
                     engine::RoundNumber round, uint32_t index) const {
  auto it = held_.find({from, incarnation, epoch, round});
  return it != held_.end() && it->second[index].taken &&
         it->second[index].payload.data() == nullptr;
}

void Inbox::Consume(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
                    engine::RoundNumber round, uint32_t index) {
  auto it = held_.find({from, incarnation, epoch, round});
  if (it == held_.end()) return;
  Place& place = it->second[index];
  if (place.payload.data() == nullptr) return;
  drop_(from, place.payload.size());
  place.payload = {};
}

void Inbox::Reopen(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
                   engine::RoundNumber round, uint32_t index) {
  auto it = held_.find({from, incarnation, epoch, round});
  if (it != held_.end() && it->second[index].payload.data() == nullptr) {
    it->second[index].taken = false;
  }
}

void Inbox::DropPlaces(const Key& key, std::vector<Place>& places) {
  for (Place& place : places) {
    if (place.payload.data() != nullptr) drop_(key.from, place.payload.size());
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
  DropIf([round](const Key& key) { return key.round <= round; });
}

void Inbox::DropEpochsBelow(engine::Epoch epoch) {
  DropIf([epoch](const Key& key) { return key.epoch < epoch; });
}

void Inbox::DropAll() {
  DropIf([](const Key&) { return true; });
}

}  // namespace causeway::exchange
