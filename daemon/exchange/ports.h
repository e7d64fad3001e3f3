// What an exchange asks of its surroundings: the network below it and the run above it.
//
// Implemented by daemon/run over daemon/transport, and by tests in memory. All calls are made on
// the loop's thread and must not call back into the exchange before they return.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_
#define CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/engine/action.h"
#include "daemon/engine/event.h"
#include "daemon/engine/ids.h"
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
  engine::Incarnation incarnation = 0;  // of the contributor's (or donor's) process
  uint32_t index = 0;
};

class ChunkPort {
 public:
  virtual ~ChunkPort() = default;
  // Queued towards the peer within its credits; lost when the link goes down (the engine or the
  // receiver asks again).
  virtual void SendChunk(engine::ClusterId to, const ChunkAddress& address,
                         memory::SharedBuffer payload) = 0;
  // Unsent contribution chunks of the fragment up to this round are no longer wanted by anybody.
  virtual void CancelChunks(engine::FragmentId fragment, engine::RoundNumber round) = 0;
  // `bytes` of received payload are consumed: the sender may send as much again.
  virtual void ReturnCredit(engine::ClusterId from, uint64_t bytes) = 0;
  // Asks a contributor to send chunks of its retained contribution again.
  virtual void RequestChunks(engine::ClusterId from, engine::FragmentId fragment,
                             engine::RoundNumber round, const std::vector<uint32_t>& indices) = 0;
  // Asks a donor for the whole outer state of a fragment.
  virtual void RequestState(engine::ClusterId from, engine::FragmentId fragment,
                            const engine::StateId& state) = 0;
  // Announces the state chunks that follow; `found` false: the donor does not hold it any more.
  virtual void OfferState(engine::ClusterId to, engine::FragmentId fragment,
                          const engine::StateId& state, bool found,
                          const engine::Hash256& state_hash) = 0;
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
  // The endpoint could not begin to encode: the operation fails, nothing left this gateway.
  virtual void OnContributionFailed(engine::OpId op, engine::FragmentId fragment,
                                    const absl::Status& status) = 0;
  // A peer's chunk failed its checks; the round waits for a good copy.
  virtual void OnBadChunk(engine::ClusterId from, const ChunkAddress& address,
                          const absl::Status& status) = 0;
  // Worth a line in the log.
  virtual void OnNote(const std::string& text) = 0;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_PORTS_H_
