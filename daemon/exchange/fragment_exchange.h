// The data side of one fragment's rounds: encode the own contribution, keep what arrives, combine
// what the engine names, apply the outer update on commit.
//
// Everything overlaps chunk by chunk: chunk k is sent while k+1 is encoded, and combined as soon as
// every contributor's chunk k is here. Heavy work runs on the worker pool; state is confined to the
// loop's thread. It decides nothing: orders come from the engine through Exchange.
//
// Memory: own encoded chunks until released; received chunks until combined; the mean (4 bytes an
// element) from combining until commit; all from the budgeted pool. Where the pool is full the
// chunk waits.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_
#define CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/inbox.h"
#include "daemon/exchange/reduction.h"

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

  void StartContribution(const engine::StartContribution& action);
  void Resend(const engine::ResendContribution& action);
  void Release(engine::OpId op);
  void Reduce(const engine::Reduce& action);
  void DropAttempts(const engine::DropAttempts& action);
  void Commit(const engine::Commit& action);

  void OnChunk(engine::ClusterId from, const ChunkAddress& address, memory::Buffer payload);
  // A contributor asks for chunks of this cluster's retained contribution again.
  void SendAgain(engine::ClusterId to, engine::RoundNumber round,
                 const std::vector<uint32_t>& indices);

  // Settles the endpoint's open contribution, if any, when a later state was fetched instead of
  // committed. Not while encoding().
  void SettleOwn(engine::OwnPart own);
  bool encoding() const { return encoding_ > 0; }

  // The fragment's value was replaced (seeded, fetched, rolled back): nothing in flight counts any
  // more.
  void SetCommitted(engine::RoundNumber round);
  void DropEpochsBelow(engine::Epoch epoch) { inbox_.DropEpochsBelow(epoch); }

  // True while values or momentum change on workers: state may not be read or replaced.
  bool committing() const { return commit_.has_value(); }
  // Holds commits back while state is being read; runs them afterwards. Balanced calls.
  void HoldCommits();
  void AllowCommits();
  // While the value is replaced on a worker nothing commits, and nothing is announced that names
  // the state before the round. Balanced calls.
  void BeginReplacing();
  void EndReplacing();
  bool replacing() const { return replacing_ > 0; }

  FragmentProgress Progress() const;
  uint64_t encoded_bytes(engine::OpId op) const;  // of the retained contribution; 0: not it
  // Chunk hashes of the result held, to name the tensor where results differ.
  std::vector<engine::Hash64> ResultHashes(engine::RoundNumber round) const;

 private:
  struct Committing {
    engine::Commit action;
    uint32_t left = 0;
  };

  void EncodeMore();
  void EncodeChunk(uint32_t index);
  void OnEncoded(engine::OpId op, uint32_t index, memory::SharedBuffer payload);
  void SendChunk(engine::ClusterId to, engine::Epoch epoch, uint32_t index);
  void RetryEncoding();
  void DropEncoding();

  absl::Status Check(uint32_t index, const memory::Buffer& payload) const;
  void StartReduction(const engine::Reduce& action);
  void ReduceMore();
  void ReduceChunk(uint32_t index);
  bool Gather(uint32_t index, std::vector<memory::SharedBuffer>* payloads) const;
  void AskForConsumed();
  void OnReduced(uint64_t generation, uint32_t index, ReducedChunk reduced);
  void AnnounceIfHeld();
  void RetryReducing();

  void StartCommit();
  void OnChunkCommitted();
  void FinishCommit();

  // Runs `work` on a worker, then `done` on the loop's thread unless this object is gone.
  void RunOnWorker(std::function<void()> work, std::function<void()> done);
  void After(int64_t delay_us, std::function<void()> function);

  const Context context_;
  const engine::FragmentId fragment_;
  const uint32_t chunks_;
  engine::RoundNumber committed_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // tasks hold a weak reference

  std::unique_ptr<Contribution> own_;
  uint32_t encoding_ = 0;  // chunks on workers
  bool encode_retry_ = false;
  bool drop_when_encoded_ = false;                       // the endpoint's contribution is void
  std::optional<engine::StartContribution> next_start_;  // waits for that

  Inbox inbox_;
  std::shared_ptr<Reduction> reduction_;  // shared with commit tasks, which read its means
  uint64_t generation_ = 0;               // of reduction_: late results of an older one are dropped
  bool reduce_retry_ = false;

  std::optional<Committing> commit_;           // on workers, or held back
  std::optional<engine::Reduce> next_reduce_;  // came while the commit was running
  int holds_ = 0;
  int replacing_ = 0;
  bool commit_started_ = false;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_FRAGMENT_EXCHANGE_H_
