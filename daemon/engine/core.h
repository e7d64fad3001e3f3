// The parts of the engine put together: routes events and messages to them, checks what peers say
// against the run's limits, and keeps the clock of repeats.
#ifndef CAUSEWAY_DAEMON_ENGINE_CORE_H_
#define CAUSEWAY_DAEMON_ENGINE_CORE_H_

#include <vector>

#include "daemon/engine/acceptor.h"
#include "daemon/engine/candidate.h"
#include "daemon/engine/catch_up.h"
#include "daemon/engine/context.h"
#include "daemon/engine/leader.h"
#include "daemon/engine/ledger.h"
#include "daemon/engine/liveness.h"
#include "daemon/engine/plans.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {

class Core {
 public:
  Core(Config config, Durable durable, uint64_t random_seed);

  void Handle(Time now, const Event& event);
  void TakeActions(std::vector<Action>* out) { context_.TakeActions(out); }
  Time NextTimer() const;
  Status Snapshot() const;
  const Ledger& ledger() const { return ledger_; }
  uint64_t messages_dropped() const { return context_.dropped; }
  Kept CountKept() const;

 private:
  void On(const Start& event);
  void On(const TrainerJoined& event);
  void On(const TrainerGone& event);
  void On(const PeerConnected& event);
  void On(const PeerDisconnected& event);
  void On(const Received& event);
  void On(const Progress& event);
  void On(const Submit& event);
  void On(const ResultHeld& event);
  void On(const StateHeld& event);
  void On(const StateFailed& event);
  void On(const Persisted& event);
  void On(const ChangeElectorate& event);
  void On(const TrainerApplied& event);
  void On(const LeaveRequested& event);
  void On(const StopRequested& event);
  void On(const ApproveRollback& event);
  void On(const ProposePlan& event);
  void On(const Timer& event);

  bool Believable(ClusterId from, const Header& header, const Message& message);
  bool SameRun(ClusterId from, const Header& header, const Message& message);
  bool WithinHorizon(ClusterId from, const Header& header, const Message& message);
  void StepHorizon();
  void Dispatch(ClusterId from, const Header& header, const Message& message);
  void OnJoin(ClusterId from, const Header& header, const Join& body);
  void OnHeartbeat(ClusterId from, const Report& report);
  void CompareDigests(ClusterId from, const Join& join);
  void CompareGrowth(ClusterId from, const Report& report);
  void LearnFragments(ClusterId from, const Report& report);
  Join MakeJoin() const;
  void Tick();
  Report MakeReport() const;
  void Repeat(ClusterId to, const Report& report);
  void AfterEvent();
  void TellChanges();
  ClusterSet Joiners() const;
  ClusterSet AwaitedToGrow() const;
  Phase CurrentPhase(ClusterSet* awaited, std::string* reason) const;

  Context context_;
  Ledger ledger_;
  Plans plans_;
  Rounds rounds_;
  Acceptor acceptor_;
  Candidate candidate_;
  Liveness liveness_;
  Leader leader_;
  CatchUp catch_up_;

  Time next_tick_ = 0;
  bool started_ = false;
  bool was_active_ = false;
  ClusterSet alive_;
  uint64_t moves_told_ = 0;  // of context_.moves
  bool drains_told_ = false;
  ClusterSet refused_;  // clusters whose digests were found to differ from the present trainer's
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CORE_H_
