// This cluster's part in a fragment's rounds: encode it once, send each chunk to whoever reduces
// it, keep it until the engine releases it.
//
// Encoding begins when the value that it builds on is here, its plan is known and the endpoint is
// free of the contribution before; until then it waits, so it cannot fail. Chunk k is sent while
// k+1 is encoded. Confined to the loop's thread, with encoding on workers. Does not: combine.
//
// Memory: encoded chunks until released, from the run's reserve or the shared pool; where both are
// full the chunk waits.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_OWN_CONTRIBUTION_H_
#define CAUSEWAY_DAEMON_EXCHANGE_OWN_CONTRIBUTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/owner_residual.h"
#include "daemon/exchange/routing.h"
#include "daemon/work/tasks.h"

namespace causeway::exchange {

class OwnContribution {
 public:
  // `may_begin`: false while the fragment's value changes. `encoded(index)`: the chunk is here now.
  // Routing and residual outlive this.
  OwnContribution(const Context& context, engine::FragmentId fragment, Routing* routing,
                  OwnerResidual* residual, std::function<bool()> may_begin,
                  std::function<void(uint32_t)> encoded);

  // The engine's orders.
  void Start(const engine::StartContribution& action);
  void Resend(const engine::ResendContribution& action);
  // `settled_later`: a commit on its way speaks of this operation and will Settle it.
  void Release(engine::OpId op, bool settled_later);

  // The contribution to this round is combined with others. Until then one without weight is not
  // encoded: where all are, as in a last round after which nothing was trained, nobody needs its
  // bytes.
  void Demand(engine::RoundNumber round);
  // Something that a start waits for may be there: a value, a plan.
  void TryBegin();
  // A member asks for chunks of the contribution to this round, encoded or not.
  void SendAgain(engine::ClusterId to, engine::RoundNumber round,
                 const std::vector<uint32_t>& indices, bool used_up);

  // What became of the endpoint's open contribution, if any. `unchanged`: of a round without
  // weight, which commits before anything need be encoded. TryBegin afterwards.
  void Settle(engine::OwnPart own, bool unchanged);
  bool encoding() const { return encoding_ > 0; }

  // Null: not encoded yet, or another operation's.
  const memory::SharedBuffer* Find(engine::OpId op, engine::RoundNumber round,
                                   uint32_t index) const;
  const Contribution* current() const { return own_.get(); }

 private:
  void Address(engine::Epoch epoch, engine::ClusterSet to);
  void EncodeMore();
  bool EncodeChunk(uint32_t index);
  void OnEncoded(engine::OpId op, uint32_t index, memory::SharedBuffer payload);
  void OnFailed(const absl::Status& status);
  void RetryEncoding();
  void DropOpen();
  void SendChunk(engine::ClusterId to, uint32_t index, bool again);

  const Context& context_;  // the exchange's
  const engine::FragmentId fragment_;
  const uint32_t chunks_;
  Routing* const routing_;
  OwnerResidual* const residual_;
  const std::function<bool()> may_begin_;
  const std::function<void(uint32_t)> encoded_;

  std::unique_ptr<Contribution> own_;
  std::optional<planning::Plan> plan_;  // own_'s; the book forgets old ones, a contribution may not
  bool begun_ = false;                  // own_ is the endpoint's open contribution
  bool demanded_ = false;
  uint32_t encoding_ = 0;  // chunks on workers
  bool retrying_ = false;
  bool drop_when_encoded_ = false;  // the endpoint's open contribution counts nowhere

  work::Tasks tasks_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_OWN_CONTRIBUTION_H_
