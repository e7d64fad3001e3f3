// The duties of an active leader: to see that the membership fits the world, and to change it if
// not.
//
// Confined to the engine. Decides that a change is due; candidate.h carries it out.
#ifndef CAUSEWAY_DAEMON_ENGINE_LEADER_H_
#define CAUSEWAY_DAEMON_ENGINE_LEADER_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/candidate.h"
#include "daemon/engine/context.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {

class Leader {
 public:
  Leader(Context& context, Candidate& candidate, Rounds& rounds, const Ledger& ledger)
      : context_(context), candidate_(candidate), rounds_(rounds), ledger_(ledger) {}

  void OnTick();
  void Wish(const Electorate& electorate) { wish_ = electorate; }

 private:
  // What is known of a cluster that wants to join.
  struct Arrival {
    int catch_ups = 0;    // values that it took while it was still behind
    RoundNumber sum = 0;  // of its rounds
    bool drained_for = false;
    Time progress = 0;    // when it last came nearer, or was seen fetching
    Time not_before = 0;  // it made no progress: the others do not wait for it again before this
  };

  bool QuorumAlive() const;
  std::string Misfit() const;
  bool ValueLost(FragmentId id) const;
  std::string Orphan() const;
  ClusterSet Apart() const;
  bool Settle();
  bool TakeLeave();
  bool HonourWish();
  bool HonourStop();
  bool HonourGrowth();
  void Admit();
  bool Follows(const Report& report, RoundNumber* lag, RoundNumber* sum) const;
  bool DrainFor(Arrival* arrival, const Report& report);
  bool Level(const Report& report) const;
  bool HoldsBase() const;

  Context& context_;
  Candidate& candidate_;
  Rounds& rounds_;
  const Ledger& ledger_;
  std::optional<Electorate> wish_;
  std::vector<Arrival> arrivals_;
  Time apart_since_ = kNever;  // some clusters have not heard each other since
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_LEADER_H_
