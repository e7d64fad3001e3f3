// Who is heard, and what a member does that does not hear its leader: suspicion, pre-votes.
//
// Confined to the engine. Silence is counted from any progress, never from a single deadline.
#ifndef CAUSEWAY_DAEMON_ENGINE_LIVENESS_H_
#define CAUSEWAY_DAEMON_ENGINE_LIVENESS_H_

#include "daemon/engine/candidate.h"
#include "daemon/engine/context.h"

namespace causeway::engine {

class Liveness {
 public:
  Liveness(Context& context, Candidate& candidate) : context_(context), candidate_(candidate) {}

  void OnTick();
  void OnPreVote(ClusterId from, const Header& header);
  void OnGrant(ClusterId from, const Header& header);
  void OnNewIncarnation(ClusterId peer) { grants_.Erase(peer); }
  // The next time that somebody's silence becomes a suspicion.
  Time NextSilence() const;
  bool HearsLeader() const;

 private:
  bool HearsRecordLeader() const;
  Time Patience() const;

  Context& context_;
  Candidate& candidate_;
  Time suspects_since_ = kNever;
  Time patience_ = 0;
  ClusterSet grants_;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_LIVENESS_H_
