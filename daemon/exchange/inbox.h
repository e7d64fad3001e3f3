// Received contribution chunks of one fragment that wait to be reduced, keyed by who sent them, in
// which life, epoch and round. Each key is held once: a repeat is dropped and its credit returned.
//
// Bounded: contributions of each sender, of which the oldest makes room; chunks within the
// fragment; bytes by the credits that were granted. Confined to the loop's thread. Does not: check
// payloads.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_
#define CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "daemon/engine/ids.h"
#include "daemon/exchange/ports.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

// (life, epoch, round) combinations of one sender; an honest one has two or three.
inline constexpr size_t kInboxRoundsMax = 16;

class Inbox {
 public:
  // `drop(from, bytes)` is called for every chunk that leaves without being taken by Consume.
  Inbox(uint32_t chunks, std::function<void(engine::ClusterId, uint64_t)> drop)
      : chunks_(chunks), drop_(std::move(drop)) {}
  ~Inbox();

  // Keeps the chunk, or drops a repeat or one older than all that its sender has here. True: kept.
  bool Put(engine::ClusterId from, const ChunkAddress& address, memory::SharedBuffer payload);

  // Null: not here.
  const memory::SharedBuffer* Find(engine::ClusterId from, engine::Incarnation incarnation,
                                   engine::Epoch epoch, engine::RoundNumber round,
                                   uint32_t index) const;
  // Chunks of a contribution that are here, or were and have been consumed.
  bool Consumed(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
                engine::RoundNumber round, uint32_t index) const;
  // The chunk has been reduced: frees it; its place stays taken against late repeats.
  void Consume(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
               engine::RoundNumber round, uint32_t index);
  // A new attempt needs it again: a repeat will be kept.
  void Reopen(engine::ClusterId from, engine::Incarnation incarnation, engine::Epoch epoch,
              engine::RoundNumber round, uint32_t index);

  // Everything of rounds up to `round`.
  void DropRounds(engine::RoundNumber round);
  // Everything of epochs below.
  void DropEpochsBelow(engine::Epoch epoch);
  void DropAll();

 private:
  struct Key {
    engine::ClusterId from;
    engine::Incarnation incarnation;
    engine::Epoch epoch;
    engine::RoundNumber round;
    auto operator<=>(const Key&) const = default;
  };
  struct Place {
    memory::SharedBuffer payload;
    bool taken = false;  // held or consumed
  };

  void DropPlaces(const Key& key, std::vector<Place>& places);
  bool MakeRoom(const Key& key);
  template <typename Predicate>
  void DropIf(Predicate predicate);

  const uint32_t chunks_;
  const std::function<void(engine::ClusterId, uint64_t)> drop_;
  std::map<Key, std::vector<Place>> held_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_INBOX_H_
