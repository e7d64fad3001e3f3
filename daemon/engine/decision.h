// What a candidate makes of the promises it holds (ROUNDS.md, Q): the next record, or why
// not yet. A pure function, so that tests can give it histories directly.
#ifndef CAUSEWAY_DAEMON_ENGINE_DECISION_H_
#define CAUSEWAY_DAEMON_ENGINE_DECISION_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/config.h"
#include "daemon/engine/ids.h"
#include "daemon/engine/message.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

// One cluster's PROMISE to this candidacy (the candidate's own included).
struct Promised {
  Incarnation incarnation = 0;
  Report report;
  std::optional<Record> accepted;
};

struct Candidacy {
  ClusterId self = 0;
  Epoch epoch;
  std::vector<std::optional<Promised>> promises;  // by cluster id
  std::optional<Electorate> wish;                 // a change of voters or primary
  ClusterSet dropped;                             // not to be members
  std::optional<bool> stop;                       // the run stands still, or goes on again
  bool grow = false;                              // to what all members' reports wish
  bool may_roll_back = false;
};

struct Verdict {
  enum class Kind {
    kRecord,
    kNotYet,         // more promises may help; `reason` says what is missing
    kNeedsRollback,  // commits would be undone and Candidacy::may_roll_back is false
  };
  Kind kind = Kind::kNotYet;
  Record record;
  ClusterSet missing;       // whose promise could help: voters; members too before a rollback
  bool restorable = false;  // kNeedsRollback: those who promised hold a value of every fragment
  std::string reason;
};

Verdict Decide(const Config& config, const Candidacy& candidacy);

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_DECISION_H_
