// The two records of the protocol: R, the agreed membership (ROUNDS.md, Words), and the record of
// one commit. Plain values; who stores or sends them serialises them.
#ifndef CAUSEWAY_DAEMON_ENGINE_RECORD_H_
#define CAUSEWAY_DAEMON_ENGINE_RECORD_H_

#include <optional>
#include <vector>

#include "daemon/engine/ids.h"

namespace causeway::engine {

// Who votes, and who breaks a tie. A quorum is more than half of the voters, or exactly half with
// the primary among them.
struct Electorate {
  ClusterSet voters;
  std::optional<ClusterId> primary;
  bool IsQuorum(ClusterSet set) const {
    const int have = (set & voters).Count();
    const int all = voters.Count();
    if (2 * have > all) return true;
    return all > 0 && 2 * have == all && primary && voters.Contains(*primary) &&
           set.Contains(*primary);
  }
  bool operator==(const Electorate&) const = default;
};

// Where a fragment stands when an epoch begins.
struct FragmentBase {
  RoundNumber round = 0;
  Hash256 chain{};
  bool operator==(const FragmentBase&) const = default;
};

// R. Written durably by everyone who accepts it; the only durable thing besides the promise.
struct Record {
  FoundingId founding = 0;  // the same in all records of a run
  Epoch epoch;
  ClusterId leader = 0;
  ClusterSet members;
  std::vector<Incarnation> incarnations;  // by cluster id, one a roster entry; 0: not a member
  Electorate electorate;
  std::optional<Electorate> old_electorate;  // while the voters or the primary change
  Lineage lineage = 0;
  std::vector<FragmentBase> base;          // by fragment, at most kFragmentsMax
  std::vector<FragmentBase> lineage_base;  // by fragment: where this lineage began
  bool rolled_back = false;                // this record began its lineage
  bool stopped = false;                    // by the operator: no rounds until a record without it
  Hash256 schema{};                        // the run's tensors since it was founded or last grew
  Hash256 algorithm{};
  bool operator==(const Record&) const = default;
};

// One contribution that counted.
struct Contributor {
  ClusterId cluster = 0;
  Incarnation incarnation = 0;
  OpId op;
  Weight weight = 0;
  PlanId plan = 0;  // how it is encoded; 0: as the configuration says
  bool operator==(const Contributor&) const = default;
};

// A run's tensors, by the digest of their schema, and how many fragments they lie in.
struct SchemaId {
  Hash256 digest{};
  uint32_t fragments = 0;
  bool operator==(const SchemaId&) const = default;
};

// What a commit was: enough to answer a trainer about its operation for good.
struct CommitRecord {
  FragmentId fragment = 0;
  StateId state;  // after the commit
  Epoch epoch;    // in which the round completed
  Attempt attempt = 0;
  std::vector<Contributor> contributors;  // ascending cluster
  Hash256 result{};                       // over the combined result
  Hash256 previous_chain{};
  bool operator==(const CommitRecord&) const = default;
};

// Commit records kept per fragment. A trainer has one unread operation a fragment, and an operation
// older than this is told to rebase instead.
inline constexpr int kCommitRecordsKept = 64;

// What survives a restart, written before a promise or an acceptance leaves.
// `founding`: this disk took part in the run's founding and has not been lost since, so the absence
// of an accepted record is knowledge, not amnesia.
struct Durable {
  Epoch promised;
  std::optional<Record> accepted;
  bool founding = false;
  bool Blank() const { return !accepted && !founding; }
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_RECORD_H_
