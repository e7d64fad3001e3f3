// How a gateway that is behind gets the committed values: asks a donor, has the data plane
// stage the state it offers, and takes it over when that is allowed.
//
// Confined to the engine. Moves no bytes and never takes part in COMPLETE's set.
#ifndef CAUSEWAY_DAEMON_ENGINE_CATCH_UP_H_
#define CAUSEWAY_DAEMON_ENGINE_CATCH_UP_H_

#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/context.h"
#include "daemon/engine/event.h"
#include "daemon/engine/ledger.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {

class CatchUp {
 public:
  CatchUp(Context& context, Ledger& ledger, Rounds& rounds)
      : context_(context), ledger_(ledger), rounds_(rounds) {}

  void OnTick();
  // An epoch has been installed, or a trainer came: what is needed may be at hand.
  void Check();
  void OnFetch(ClusterId from, const Fetch& body);
  void OnState(ClusterId from, const State& body);
  void OnStateHeld(const StateHeld& held);
  void OnStateFailed(const StateFailed& failed);
  bool Fetching(FragmentId id) const {
    return id < transfers_.size() && transfers_[id].has_value();
  }
  bool FetchingAny() const;

 private:
  struct Transfer {
    StateId state;
    std::map<ClusterId, Incarnation> donors;
    bool held = false;
    std::vector<CommitRecord> records;
  };

  bool Needs(FragmentId id) const;
  bool Useful(FragmentId id, const StateId& state) const;
  bool TakeFromTrainer(FragmentId id);
  bool Lost(const Transfer& transfer) const;
  std::map<ClusterId, Incarnation> Donors(FragmentId id, const StateId& state) const;
  void Ask(FragmentId id);
  void TakeOver(FragmentId id);

  Context& context_;
  Ledger& ledger_;
  Rounds& rounds_;
  std::vector<std::optional<Transfer>> transfers_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CATCH_UP_H_
