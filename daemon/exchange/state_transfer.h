// Outer state that moves whole: the seed's first values, and what a joining or returning gateway
// fetches.
//
// A joiner asks each donor for a share of the pieces; a donor names the state's hash and sends its
// share of values, then momentum, as fp32 chunks; what a donor that goes away has not sent is asked
// of the others. Nothing becomes the run's value before its hash agrees; where it does not, all
// comes from one donor, then from another. Confined to the loop's thread, with decoding and hashing
// on workers.
//
// Memory: a state being fetched lies in pooled buffers once, encoded (4 or 8 bytes an element); of
// one being sent at most Context::served_ahead_max chunks. Commits wait until the last piece is
// encoded, or the joiner has taken nothing for Context::serve_patience_us.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_
#define CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/fragment_exchange.h"
#include "daemon/exchange/piece_shares.h"
#include "daemon/work/tasks.h"

namespace causeway::exchange {

// How far a fetch is, for operators.
struct FetchProgress {
  uint64_t bytes = 0;  // that are here
  uint64_t bytes_total = 0;
  double bytes_per_s = 0;  // since it began
  double silent_s = 0;     // since anything came
  engine::ClusterSet donors;
};

class StateTransfer {
 public:
  StateTransfer(const Context& context, engine::FragmentId fragment, FragmentExchange* rounds);

  void Fetch(const engine::FetchState& action);
  void Adopt(const engine::AdoptState& action);
  // The value here stands under another name from now on: a rollback to it. What encoding lost so
  // far and a contribution of old count no more.
  void Relabel(const engine::StateId& state);
  // The value here is now this state (after a commit or an adoption).
  void SetCommitted(const engine::StateId& state);
  const engine::StateId& committed() const { return committed_; }

  // From a joiner.
  void OnRequest(engine::ClusterId from, const engine::StateId& state, const PieceSet& wanted);
  // From a donor.
  void OnOffer(engine::ClusterId from, const engine::StateId& state, const DonorAnswer& answer);
  void OnChunk(engine::ClusterId from, const ChunkAddress& address, memory::Buffer payload);
  // A piece that was sent is with its joiner, or lost with the link.
  void OnChunkDone();
  // What was asked of the donor or sent by it may have been lost with its last link.
  void OnPeerUp(engine::ClusterId peer);
  void OnPeerDown(engine::ClusterId peer);

  bool serving() const { return !waiting_.empty(); }  // to joiners
  bool fetching() const { return staged_ != nullptr && !staged_->verified; }
  // Nothing unless a state is being fetched.
  std::optional<FetchProgress> Progress() const;

 private:
  struct Staged {
    Staged(const engine::FetchState& fetch, uint32_t pieces);

    engine::StateId state;
    engine::ClusterSet donors;   // that may hold it
    engine::ClusterSet away;     // of those: without a link, or silent
    engine::ClusterSet heard;    // of those: sent something since Watch looked
    engine::ClusterSet sources;  // pieces came from them
    bool passed = false;         // some do not serve it (any more): links are not waited for
    bool alone = false;          // one donor after the other
    std::map<engine::ClusterId, DonorAnswer> answers;
    std::vector<memory::SharedBuffer> chunks;  // values, then momentum
    PieceShares shares;
    int64_t begun_us = 0;
    int64_t came_us = 0;  // the newest of them
    bool verifying = false;
    bool verified = false;
  };
  struct Serving {
    engine::ClusterId to = 0;
    engine::StateId state;
    PieceSet wanted;
    uint32_t next = 0;  // pieces below it are sent or on workers, save those refused
    uint32_t encoding = 0;
    bool gone = false;  // its link ended, or the state did
  };

  uint32_t Pieces() const;  // chunks of a whole state
  void Stage(const engine::FetchState& action);
  void AskDonors();
  void Drop(engine::ClusterId donor);
  void WatchDonors();
  void Verify();
  void Distrust();
  void Skip(Serving* serving) const;
  void ServeMore();
  void RetryServing();
  void Watch();
  void GiveUpServing();
  bool EncodePiece(uint32_t piece);
  void OnPieceEncoded(uint32_t piece, memory::Buffer bytes);
  void FinishIfServed();
  void Replace(const engine::AdoptState& action, std::shared_ptr<Staged> staged);
  void Finish(const engine::AdoptState& action);
  void FinishRelabel(const engine::StateId& state);

  const Context& context_;  // the exchange's
  const engine::FragmentId fragment_;
  const uint32_t chunks_;
  FragmentExchange* const rounds_;
  engine::StateId committed_;
  std::shared_ptr<Staged> staged_;  // shared with tasks on workers
  std::vector<Serving> waiting_;    // joiners; the first is being served. Each at most twice
  uint32_t in_flight_ = 0;          // pieces sent and not yet done, of all joiners
  bool watching_donors_ = false;
  bool retrying_ = false;
  uint64_t moved_ =
      0;  // pieces sent and done, and requests: what a joiner that takes nothing stops
  bool watching_ = false;
  bool stuck_ = false;  // what is in flight does not move: nobody is served meanwhile
  work::Tasks tasks_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_
