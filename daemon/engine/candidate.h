// A change of membership that this gateway leads: PREPARE, collect promises, decide, INSTALL; and
// the founding of a run, which takes the same path with every voter.
//
// Confined to the engine. Whether a change is needed is for liveness.h and leader.h to say.
#ifndef CAUSEWAY_DAEMON_ENGINE_CANDIDATE_H_
#define CAUSEWAY_DAEMON_ENGINE_CANDIDATE_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/acceptor.h"
#include "daemon/engine/context.h"
#include "daemon/engine/decision.h"

namespace causeway::engine {

class Candidate {
 public:
  Candidate(Context& context, Acceptor& acceptor) : context_(context), acceptor_(acceptor) {}

  bool Running() const { return stage_ != Stage::kIdle; }
  // Not before this time: the last attempt failed.
  Time not_before() const { return not_before_; }
  Time last_start() const { return last_start_; }

  // False: the number of the next epoch is out of reach, until the next heartbeat or for good.
  bool MayMint();
  void Begin(const std::string& reason, std::optional<Electorate> wish = std::nullopt,
             ClusterSet dropped = {}, std::optional<bool> stop = std::nullopt, bool grow = false);
  // Founds the run when every voter is virgin and agrees on schema and algorithm.
  void FoundIfPossible();
  bool rollback_wanted() const { return rollback_wanted_; }

  void OnPromise(ClusterId from, const Header& header, const Promise& body);
  void OnAccepted(ClusterId from, const Header& header);
  void OnPersisted();
  void OnTick();
  // A higher promise ended what was under way.
  void OnFenced();
  void Repeat(ClusterId to);

 private:
  enum class Stage { kIdle, kPreparing, kInstalling };

  void Start(bool founding);
  void SendPrepare(ClusterId to);
  bool AllAlivePromised() const;
  void TryDecide();
  void TryFound();
  void Propose(const Record& record);
  void SendInstall(ClusterId to);
  void CountAcceptance(ClusterId from);
  void GiveUp(const std::string& reason);
  ClusterSet PromisedSet() const;

  Context& context_;
  Acceptor& acceptor_;
  Stage stage_ = Stage::kIdle;
  bool founding_ = false;
  Candidacy candidacy_;
  std::vector<Incarnation> targets_;  // incarnations when this candidacy began
  Time started_ = 0;
  Time last_start_ = 0;
  Time not_before_ = 0;
  uint64_t promise_token_ = 0;
  uint64_t accept_token_ = 0;
  bool own_promise_counted_ = false;
  ClusterSet accepted_;
  bool rollback_wanted_ = false;
  std::string undecided_;  // why the promises so far do not suffice
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CANDIDATE_H_
