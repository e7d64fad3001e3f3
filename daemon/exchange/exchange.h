// The data side of one run: carries out the engine's orders on data and hands arriving data to its
// place.
//
// A thin front over one FragmentExchange and one StateTransfer a fragment. Confined to the loop's
// thread; workers do the arithmetic. It keeps no opinion: what to combine, commit, fetch or drop is
// the engine's word.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_EXCHANGE_H_
#define CAUSEWAY_DAEMON_EXCHANGE_EXCHANGE_H_

#include <memory>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/fragment_exchange.h"
#include "daemon/exchange/state_transfer.h"

namespace causeway::exchange {

class Exchange {
 public:
  // Everything in `context` outlives this object.
  explicit Exchange(Context context);

  // Whether no fragment is being encoded, committed or replaced, nor has a contribution open: then its
  // state may be copied and be another's.
  bool Quiet() const;
  // The first `kept` fragments go on with what they have begun, upon what `context` names, which holds
  // their state; the others are new. Needs Quiet().
  void Grow(Context context, size_t kept);

  // Orders.
  FragmentExchange& rounds(engine::FragmentId fragment) { return *fragments_.at(fragment).rounds; }
  StateTransfer& state(engine::FragmentId fragment) { return *fragments_.at(fragment).state; }
  // A membership is in force: chunks of older epochs are void, and owners are among its members.
  void OnEpoch(const engine::Record& record);
  // A plan came into the book.
  void OnPlanKnown();

  // From peers; `from` is authenticated. Names outside the schema are dropped and their credit
  // returned.
  void OnChunk(engine::ClusterId from, const ChunkAddress& address, memory::Buffer payload);
  void OnChunkRequest(engine::ClusterId from, const ChunkRequest& request);
  void OnPeerUp(engine::ClusterId peer);
  void OnPeerDown(engine::ClusterId peer);

  // From the port. A chunk was lost on its way, and the way is free again: it goes once more if it
  // is still retained.
  void SendAgain(engine::ClusterId to, const ChunkAddress& address);
  // A state chunk that SendChunk took has ended one way or the other.
  void OnStateChunkDone(engine::FragmentId fragment);

  // Commits of all fragments wait until the value returned is gone: values stay readable. Release
  // it on the loop's thread; it may outlive the exchange.
  std::shared_ptr<void> HoldCommits();

  size_t size() const { return fragments_.size(); }

 private:
  struct Fragment {
    std::unique_ptr<FragmentExchange> rounds;
    std::unique_ptr<StateTransfer> state;
  };

  void Append(engine::FragmentId fragment);

  Context context_;  // the fragments refer to it
  std::vector<Fragment> fragments_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // holds have a weak reference
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_EXCHANGE_H_
