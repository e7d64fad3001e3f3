// Received chunks of one fragment that wait to be reduced, under the name of what they belong to.
// Each place is held once: a repeat is dropped and its credit returned.
//
// Bounded: names of each sender, of which the oldest makes room; chunks within the fragment; bytes
// by the credits that were granted. Confined to the loop's thread. Does not: check payloads.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_
#define CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/exchange/ports.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

// Names of one sender; an honest one has few: contributions and results of two or three rounds.
inline constexpr size_t kInboxNamesMax = 16;

class Inbox {
 public:
  // A contribution, or what an owner made of an attempt. Ascends by sender, life, epoch and round.
  struct Name {
    engine::ClusterId from = 0;
    engine::Incarnation incarnation = 0;
    engine::Epoch epoch;
    engine::RoundNumber round = 0;
    engine::Attempt attempt = 0;  // of results; contributions are the same in every attempt
    ChunkKind kind = ChunkKind::kContribution;
    auto operator<=>(const Name&) const = default;
  };
  static Name NameOf(engine::ClusterId from, const ChunkAddress& address);

  // `drop(from, bytes)` is called for every chunk whose bytes are not needed any more.
  Inbox(uint32_t chunks, std::function<void(engine::ClusterId, uint64_t)> drop)
      : chunks_(chunks), drop_(std::move(drop)) {}
  ~Inbox();

  // Keeps the chunk, or drops a repeat or one older than all that its sender has here. True: kept.
  bool Put(const Name& name, uint32_t index, memory::SharedBuffer payload);

  // Null: not here.
  const memory::SharedBuffer* Find(const Name& name, uint32_t index) const;
  // The chunk has been reduced: frees it; its place stays taken against late repeats.
  void Consume(const Name& name, uint32_t index);
  bool Consumed(const Name& name, uint32_t index) const;
  // The chunk is no good: frees it; a better one will be kept.
  void Discard(const Name& name, uint32_t index);

  // The chunk is asked for: it will be kept although it was consumed.
  void Ask(const Name& name, uint32_t index);
  // Chunks that were asked for and have not come.
  std::vector<uint32_t> Asked(const Name& name) const;

  // Everything of rounds up to `round`.
  void DropRounds(engine::RoundNumber round);
  // Results of the round's earlier attempts: no use to this one, and room for its own.
  void DropResultsBefore(engine::Epoch epoch, engine::RoundNumber round, engine::Attempt attempt);
  // Everything of epochs below.
  void DropEpochsBelow(engine::Epoch epoch);
  void DropAll();

  // Payloads of this sender that are here.
  uint64_t bytes(engine::ClusterId from) const {
    const auto held = bytes_.find(from);
    return held == bytes_.end() ? 0 : held->second;
  }

 private:
  struct Place {
    memory::SharedBuffer payload;
    bool taken = false;  // held or consumed
    bool asked = false;
  };

  std::vector<Place>* PlacesOf(const Name& name);
  void DropPlaces(const Name& name, std::vector<Place>& places);
  void Drop(engine::ClusterId from, uint64_t bytes);
  bool MakeRoom(const Name& name);
  template <typename Predicate>
  void DropIf(Predicate predicate);

  const uint32_t chunks_;
  const std::function<void(engine::ClusterId, uint64_t)> drop_;
  std::map<Name, std::vector<Place>> held_;
  std::map<engine::ClusterId, uint64_t> bytes_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_
