// One run's view of the transport: clusters by id instead of name, engine envelopes instead of
// protobuf.
//
// Confined to the loop's thread (the transport itself is thread-safe). Chunks that a lost link took
// with it are remembered and sent again on the next link to the same process of the peer. Messages
// to a peer without a link are dropped: the engine repeats what matters.
#ifndef CAUSEWAY_DAEMON_RUN_NETWORK_H_
#define CAUSEWAY_DAEMON_RUN_NETWORK_H_

#include <cstdint>
#include <functional>
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

  // The link to a peer came up: true when it is the same process as before. `again` is called for
  // every chunk that the last link took with it.
  void OnPeerUp(engine::ClusterId peer, uint64_t incarnation,
                const std::function<void(const exchange::ChunkAddress&)>& again);
  void OnPeerDown(engine::ClusterId peer);
  void OnChunkDone(engine::ClusterId peer, const transport::ChunkHeader& header,
                   const absl::Status& status);
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
  void SendChunk(engine::ClusterId to, const exchange::ChunkAddress& address,
                 memory::SharedBuffer payload) override;
  void CancelChunks(engine::FragmentId fragment, engine::RoundNumber round) override;
  void ReturnCredit(engine::ClusterId from, uint64_t bytes) override;
  void RequestChunks(engine::ClusterId from, engine::FragmentId fragment, engine::RoundNumber round,
                     const std::vector<uint32_t>& indices) override;
  void RequestState(engine::ClusterId from, engine::FragmentId fragment,
                    const engine::StateId& state) override;
  void OfferState(engine::ClusterId to, engine::FragmentId fragment, const engine::StateId& state,
                  const exchange::DonorAnswer& answer) override;

 private:
  struct Peer {
    bool connected = false;
    uint64_t incarnation = 0;  // of the process behind the last link
    engine::Incarnation engine_incarnation = 0;
    std::vector<exchange::ChunkAddress> lost;  // at most transport::kChunksQueuedMax
  };

  const std::string run_;
  const Roster& roster_;
  const engine::ClusterId self_;
  transport::Transport* const transport_;
  std::vector<Peer> peers_;
  uint64_t chunk_bytes_sent_ = 0;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_NETWORK_H_
