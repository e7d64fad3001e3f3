// Outer state that moves whole: the seed's first values, and what a joining or returning gateway
// fetches.
//
// A joiner asks one donor at a time; the donor names the state's hash and sends values, then
// momentum, as fp32 chunks; the joiner keeps what came when a donor goes away and asks the next one
// for the same state. Nothing becomes the run's value before its hash agrees. Confined to the
// loop's thread, with decoding and hashing on workers.
//
// Memory: a state being fetched or sent lies in pooled buffers once, encoded (4 or 8 bytes an
// element).
#ifndef CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_
#define CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/fragment_exchange.h"

namespace causeway::exchange {

class StateTransfer {
 public:
  StateTransfer(const Context& context, engine::FragmentId fragment, FragmentExchange* rounds);
  ~StateTransfer();

  void Fetch(const engine::FetchState& action);
  void Adopt(const engine::AdoptState& action);
  // The value here is now this state (after a commit or an adoption).
  void SetCommitted(const engine::StateId& state);
  const engine::StateId& committed() const { return committed_; }

  // From a joiner.
  void OnRequest(engine::ClusterId from, const engine::StateId& state);
  // From a donor.
  void OnOffer(engine::ClusterId from, const engine::StateId& state, bool found,
               const engine::Hash256& state_hash);
  void OnChunk(engine::ClusterId from, const ChunkAddress& address, memory::Buffer payload);
  // What was asked of the donor or sent by it may have been lost with its last link.
  void OnPeerUp(engine::ClusterId peer);
  void OnPeerDown(engine::ClusterId peer);

  bool fetching() const { return staged_ != nullptr && !staged_->verified; }

 private:
  struct Staged {
    engine::StateId state;
    engine::ClusterSet donors;
    engine::ClusterId donor = 0;
    std::optional<engine::Hash256> hash;
    std::vector<memory::SharedBuffer> chunks;  // values, then momentum
    uint32_t received = 0;
    bool verifying = false;
    bool verified = false;
  };
  struct Serving {
    engine::ClusterId to = 0;
    engine::StateId state;
    uint32_t next = 0;
    uint32_t encoding = 0;
  };

  uint32_t Pieces() const;  // chunks of a whole state
  void AskNextDonor();
  void Verify();
  void ServeMore();
  bool EncodePiece(uint32_t piece);
  void FinishServing();
  void Finish(const engine::AdoptState& action);
  void RunOnWorker(std::function<void()> work, std::function<void()> done);

  const Context context_;
  const engine::FragmentId fragment_;
  const uint32_t chunks_;
  FragmentExchange* const rounds_;
  engine::StateId committed_;
  std::shared_ptr<Staged> staged_;  // shared with tasks on workers
  std::vector<Serving> waiting_;    // joiners, served one after the other; each at most twice
  bool serving_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_STATE_TRANSFER_H_
