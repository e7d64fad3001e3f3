// What an exchange asks of its surroundings: the network below it and the run above it.
//
// Implemented by daemon/run over daemon/transport, and by tests in memory. All calls are made on
// the loop's thread and must not call back into the exchange before they return.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_
#define CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/engine/action.h"
#include "daemon/engine/event.h"
#include "daemon/engine/ids.h"
#include "daemon/exchange/piece_shares.h"
#include "daemon/memory/buffer_pool.h"

namespace causeway::exchange {

enum class ChunkKind : uint8_t { kContribution = 1, kResult = 2, kState = 3 };  // ids on the wire

// Names one chunk on its way between two gateways of a run.
struct ChunkAddress {
  ChunkKind kind = ChunkKind::kContribution;
  engine::Epoch epoch;
  engine::Lineage lineage = 0;
  engine::FragmentId fragment = 0;
  engine::RoundNumber round = 0;
  engine::Attempt attempt = 0;          // of results only
  engine::Incarnation incarnation = 0;  // of the sender's process
  uint32_t index = 0;
  auto operator<=>(const ChunkAddress&) const = default;
};

// Asks for chunks of a contribution or of an owner's result that the sender retains.
struct ChunkRequest {
  ChunkKind kind = ChunkKind::kContribution;
  engine::FragmentId fragment = 0;
  engine::RoundNumber round = 0;
  std::vector<uint32_t> indices;  // at most kRequestIndicesMax
  // They came once and are needed again. Else what is on its way already need not be sent twice.
  bool used_up = false;
};
inline constexpr size_t kRequestIndicesMax = 1 << 16;
// Whether this id on the wire is a kind that can be asked for.
constexpr bool Requestable(uint32_t kind) {
  return kind == static_cast<uint32_t>(ChunkKind::kContribution) ||
         kind == static_cast<uint32_t>(ChunkKind::kResult);
}

// A donor's answer. `hash` covers the state whole, the rule's words included.
struct DonorAnswer {
  bool found = false;  // false: it does not hold that state any more
  engine::Hash256 hash{};
  std::vector<engine::Hash64> words;  // outer/outer_state.h
};

class ChunkPort {
 public:
  virtual ~ChunkPort() = default;
  // Queued towards the peer within its credits. What a link takes with it is asked for again by
  // Exchange::SendAgain when the peer's process is back. A chunk that is on its way to that peer
  // already is not queued twice; `again`: it is sent once more after that.
  // Of state chunks each call stands for itself. True: Exchange::OnStateChunkDone follows,
  // whatever becomes of it; false: there is no link, or its queue is full.
  virtual bool SendChunk(engine::ClusterId to, const ChunkAddress& address,
                         memory::SharedBuffer payload, bool again) = 0;
  // Unsent chunks of this kind of the fragment up to this round are no longer wanted by anybody.
  virtual void CancelChunks(ChunkKind kind, engine::FragmentId fragment,
                            engine::RoundNumber round) = 0;
  // `bytes` of received payload are consumed: the sender may send as much again.
  virtual void ReturnCredit(engine::ClusterId from, uint64_t bytes) = 0;
  // Asks a member for chunks that it retains. Lost without a link.
  virtual void RequestChunks(engine::ClusterId from, const ChunkRequest& request) = 0;
  // Asks a donor for pieces of the outer state of a fragment. Lost without a link.
  virtual void RequestState(engine::ClusterId from, engine::FragmentId fragment,
                            const engine::StateId& state, const PieceSet& wanted) = 0;
  // Announces the state chunks that follow, where it is found.
  virtual void OfferState(engine::ClusterId to, engine::FragmentId fragment,
                          const engine::StateId& state, const DonorAnswer& answer) = 0;
};

// What became of one committed round, for trainers, logs and metrics.
struct CommitReport {
  engine::CommitRecord record;
  engine::OwnPart own = engine::OwnPart::kNone;
  engine::OpId own_op;
  bool nonfinite = false;  // the result holds NaN or Inf
};

class ExchangeListener {
 public:
  virtual ~ExchangeListener() = default;
  virtual void OnResultHeld(const engine::ResultHeld& event) = 0;
  // The outer update is done and the new value is readable.
  virtual void OnCommitted(const CommitReport& report) = 0;
  virtual void OnStateHeld(const engine::StateHeld& event) = 0;
  // No donor serves that state any more.
  virtual void OnStateFailed(const engine::StateFailed& event) = 0;
  virtual void OnAdopted(engine::FragmentId fragment, const engine::StateId& state) = 0;
  // A peer's chunk failed its checks; the round waits for a good copy, which is asked for.
  virtual void OnBadChunk(engine::ClusterId from, const ChunkAddress& address,
                          const absl::Status& status) = 0;
  // The device that held a contribution's snapshot failed: that contribution will not be whole.
  virtual void OnDeviceFailed(const absl::Status& status) = 0;
  // Worth a line in the log.
  virtual void OnNote(const std::string& text) = 0;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_
