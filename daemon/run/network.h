// One run's view of the transport: clusters by id instead of name, engine envelopes instead of
// protobuf.
//
// Confined to the loop's thread (the transport itself is thread-safe). A chunk is on its way to a
// peer once at a time. Chunks that a lost link took with it, or for which the queue had no room,
// are remembered by name and sent again on the next link to the same process of the peer, or when
// the queue drains. Messages to a peer without a link are dropped: the engine repeats what matters.
#ifndef CAUSEWAY_DAEMON_RUN_NETWORK_H_
#define CAUSEWAY_DAEMON_RUN_NETWORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/message.h"
#include "daemon/exchange/ports.h"
#include "daemon/run/roster.h"
#include "daemon/transport/transport.h"
#include "proto/wan.pb.h"

namespace causeway::run {

class RunNetwork final : public exchange::ChunkPort {
 public:
  RunNetwork(std::string run, const Roster& roster, engine::ClusterId self,
             transport::Transport* transport);

  // The run holds at most this much of each peer's chunks; 0: they send none.
  void SetWindow(uint64_t bytes);

  void Send(engine::ClusterId to, const engine::Envelope& envelope);
  void Send(engine::ClusterId to, wan::v1::RunMessage message);

  // These return chunks that are to be sent again now: on a new link to the same process, those
  // that the last one took with it or that found none; on the first to a new process, those of them
  // in `epoch`, whose record names it already (None: none does); as chunks are done, those that are
  // wanted once more or found no room.
  std::vector<exchange::ChunkAddress> OnPeerUp(engine::ClusterId peer, uint64_t incarnation,
                                               engine::Epoch epoch);
  std::vector<exchange::ChunkAddress> OnChunkDone(engine::ClusterId peer,
                                                  const exchange::ChunkAddress& address,
                                                  const absl::Status& status);
  std::vector<exchange::ChunkAddress> OnProgress(engine::ClusterId peer);
  void OnPeerDown(engine::ClusterId peer);
  bool connected(engine::ClusterId peer) const { return peers_[peer].connected; }

  // Engine incarnations as their messages name them: what counts as a sign of life.
  void NoteEngine(engine::ClusterId peer, engine::Incarnation incarnation) {
    peers_[peer].engine_incarnation = incarnation;
  }
  engine::Incarnation engine_incarnation(engine::ClusterId peer) const {
    return peers_[peer].engine_incarnation;
  }

  // Chunk names to and from the transport's; nullopt: an unknown kind or cluster.
  transport::ChunkHeader Header(const exchange::ChunkAddress& address) const;
  std::optional<exchange::ChunkAddress> Address(const transport::ChunkHeader& header) const;

  uint64_t chunk_bytes_sent() const { return chunk_bytes_sent_; }

  // exchange::ChunkPort
  bool SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                 memory::SharedBuffer payload, bool again) override;
  void CancelChunks(exchange::ChunkKind kind, engine::FragmentId fragment,
                    engine::RoundNumber round) override;
  void ReturnCredit(engine::ClusterId from, uint64_t bytes) override;
  void RequestChunks(engine::ClusterId from, const exchange::ChunkRequest& request) override;
  void RequestState(engine::ClusterId from, engine::FragmentId fragment,
                    const engine::StateId& state, const exchange::PieceSet& wanted) override;
  void OfferState(engine::ClusterId to, engine::FragmentId fragment, const engine::StateId& state,
                  const exchange::DonorAnswer& answer) override;

 private:
  struct Peer {
    bool connected = false;
    uint64_t incarnation = 0;  // of the process behind the last link
    engine::Incarnation engine_incarnation = 0;
    // Contributions and results. Sent and not done; true: to be sent once more then. No more than
    // the transport takes.
    std::map<exchange::ChunkAddress, bool> in_flight;
    std::set<exchange::ChunkAddress> lost;  // at most transport::kChunksQueuedMax
  };

  static void Lose(Peer& peer, const exchange::ChunkAddress& address);
  static std::vector<exchange::ChunkAddress> TakeLost(Peer& peer, size_t most);

  const std::string run_;
  const Roster& roster_;
  const engine::ClusterId self_;
  transport::Transport* const transport_;
  std::vector<Peer> peers_;
  uint64_t chunk_bytes_sent_ = 0;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_NETWORK_H_
