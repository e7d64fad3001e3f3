// How many chunks of each peer were refused lately: a peer that has no better ones loses its link,
// one that errs now and then, over weeks, does not.
//
// Confined to the control loop. Decides; run.cc ends the link.
#ifndef CAUSEWAY_DAEMON_RUN_BAD_CHUNKS_H_
#define CAUSEWAY_DAEMON_RUN_BAD_CHUNKS_H_

#include <map>

#include "daemon/engine/ids.h"

namespace causeway::run {

inline constexpr int kBadChunksMax = 8;          // of one peer; a further one ends its link
inline constexpr int kCommitsToForgiveOne = 64;  // of whatever fragments

class BadChunks {
 public:
  // True: it was one too many.
  bool Note(engine::ClusterId from) { return ++counts_[from] > kBadChunksMax; }
  // A link is new: what went wrong on the one before says nothing.
  void Forget(engine::ClusterId peer) { counts_.erase(peer); }
  void OnCommit() {
    if (++commits_ < kCommitsToForgiveOne) return;
    commits_ = 0;
    for (auto& [peer, count] : counts_) count = count > 0 ? count - 1 : 0;
  }

 private:
  std::map<engine::ClusterId, int> counts_;
  int commits_ = 0;  // since one was forgiven
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_BAD_CHUNKS_H_
