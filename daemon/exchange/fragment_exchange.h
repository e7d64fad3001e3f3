// The data side of one fragment's rounds: keep what arrives, combine what the engine names, pass
// results on where this gateway owns chunks, apply the outer update on commit.
//
// Everything overlaps chunk by chunk: a chunk is combined as soon as every contributor's is here.
// Heavy work runs on the worker pool; state is confined to the loop's thread. It decides nothing:
// orders come from the engine through Exchange.
//
// Memory: received chunks until combined (credits bound them); the mean (4 bytes an element) and,
// of owned chunks, the result and a residual, from combining until commit.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_
#define CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/committer.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/inbox.h"
#include "daemon/exchange/own_contribution.h"
#include "daemon/exchange/owner_residual.h"
#include "daemon/exchange/reduction.h"
#include "daemon/exchange/routing.h"
#include "daemon/work/tasks.h"

namespace causeway::exchange {

// For status.
struct FragmentProgress {
  const char* phase = "idle";  // idle, encoding, exchanging, completing, committing
  uint32_t chunks_total = 0;
  uint32_t chunks_encoded = 0;
  uint32_t chunks_reduced = 0;
};

class FragmentExchange {
 public:
  FragmentExchange(const Context& context, engine::FragmentId fragment);
  ~FragmentExchange();

  // ---- orders
  void StartContribution(const engine::StartContribution& action);
  void Resend(const engine::ResendContribution& action) { own_.Resend(action); }
  void Release(engine::OpId op);
  void Reduce(const engine::Reduce& action);
  void DropAttempts(const engine::DropAttempts& action);
  void Commit(const engine::Commit& action);
  // A membership is in force: what other epochs sent is void.
  void OnEpoch(const engine::Record& record);
  // A plan is known that was not.
  void OnPlanKnown();
  // The value will be that of this round, which is on its way here or was rolled back to: what comes
  // of later rounds waits for it, and nobody reduces it or earlier ones any more.
  void Expect(engine::RoundNumber round);

  // ---- from peers
  void OnChunk(engine::ClusterId from, const ChunkAddress& address, memory::Buffer payload);
  void SendAgain(engine::ClusterId to, const ChunkRequest& request);
  // What was asked of the peer may have been lost with its last link.
  void OnPeerUp(engine::ClusterId peer);

  // ---- the fragment's value
  // Settles the endpoint's open contribution, if any, when a later state was fetched instead of
  // committed. Not while encoding().
  void SettleOwn(engine::OwnPart own) {
    own_.Settle(own == engine::OwnPart::kNone ? engine::OwnPart::kExcluded : own, false);
  }
  bool encoding() const { return own_.encoding(); }
  // The fragment's value was replaced (seeded, fetched, rolled back): nothing in flight counts any
  // more. `forward`: it extends what was here, so what encoding lost so far still counts.
  void SetCommitted(engine::RoundNumber round, bool forward);

  // True while values or momentum are about to change: state may not be read.
  bool committing() const { return committer_.pending() != nullptr; }
  // Holds commits back while state is being read; runs them afterwards. Balanced calls.
  void HoldCommits() { committer_.Hold(); }
  void AllowCommits() { committer_.Allow(); }
  // committer.h. While the value is replaced nothing is announced that names the state before the
  // round.
  void BeginReplacing(std::function<void()> ready) { committer_.BeginReplacing(std::move(ready)); }
  void EndReplacing();
  bool replacing() const { return committer_.replacing(); }

  FragmentProgress Progress() const;
  uint64_t encoded_bytes(engine::OpId op) const;  // of the retained contribution; 0: not it
  // Chunk hashes of the result held, to name the tensor where results differ.
  std::vector<engine::Hash64> ResultHashes(engine::RoundNumber round) const;

 private:
  struct Job;

  std::optional<ReductionPlan> PlanFor(const engine::Reduce& action);
  void StartReduction(const engine::Reduce& action);
  bool Spent(const Inbox::Name& name, uint32_t index) const;
  bool TooFarAhead(const Inbox::Name& name) const;
  void SpendUnused();
  void AskForMissing();
  void AskOf(size_t contributor);
  void AskOwners();
  void Request(engine::ClusterId from, const Inbox::Name& name, std::vector<uint32_t> indices,
               bool used_up);
  Inbox::Name PartName(const engine::Contributor& contributor) const;
  Inbox::Name ResultName(engine::ClusterId owner) const;
  void ReduceMore();
  void ReduceChunk(uint32_t index);
  bool Gather(uint32_t index, Job* job);
  bool Provide(uint32_t index, Job* job);
  void OnReduced(uint64_t generation, uint32_t index, Job& job);
  void OnBadPart(uint32_t index, const Job& job);
  void Consume(uint32_t index);
  void SendResult(engine::ClusterId to, uint32_t index, bool again);
  void SendResults(uint32_t index);
  void AnnounceIfHeld();
  void AllowOnceEncoded();
  void RetryReducing();
  void OnCommitted(const engine::Commit& action, const Reduction& reduction);
  void KeepResiduals(const Reduction& reduction);

  const Context& context_;  // the exchange's
  const engine::FragmentId fragment_;
  const uint32_t chunks_;
  const uint64_t ahead_bytes_max_;  // of one sender, of rounds whose base is not here
  engine::RoundNumber committed_ = 0;
  engine::RoundNumber base_ = 0;  // committed_, or what is expected in its place
  bool expects_ = false;
  engine::Epoch epoch_;  // that is in force

  Routing routing_;
  OwnerResidual residual_;
  OwnContribution own_;
  Inbox inbox_;
  std::shared_ptr<Reduction> reduction_;  // shared with commit tasks, which read its means
  uint64_t generation_ = 0;               // of reduction_: late results of an older one are dropped
  bool reduce_retry_ = false;
  // Waits for a commit to end, or for a plan.
  std::optional<engine::Reduce> next_reduce_;
  Committer committer_;
  std::vector<engine::ClusterId> last_owners_;  // of the newest committed round

  work::Tasks tasks_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_
