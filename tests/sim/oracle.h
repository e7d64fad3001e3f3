// What must hold in every history, checked as it happens: one content per committed round, no
// commit lost except by an announced rollback, each operation counted once and truthfully reported,
// residuals that move only with counted contributions.
//
// Sees everything, steers nothing. A violation is thrown with words that name it.
#ifndef CAUSEWAY_TESTS_SIM_ORACLE_H_
#define CAUSEWAY_TESTS_SIM_ORACLE_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/engine/action.h"
#include "daemon/engine/record.h"

namespace causeway::sim {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A contribution as it was encoded: which operation, and under which residual. `memory` names the
// life of the residual: it changes when a residual is lost or zeroed.
struct Encoded {
  int cluster = 0;
  engine::OpId op;
  uint64_t memory = 0;
  uint64_t residual_of = 0;  // number of the counted contribution that left the residual; 0: none
};

struct OracleCounts {
  uint64_t commits = 0;
  uint64_t excluded = 0;
  uint64_t epochs = 0;
  uint64_t rollbacks = 0;
  uint64_t cuts = 0;
};

class Oracle {
 public:
  using Value = uint64_t;

  uint64_t Encode(const Encoded& encoded);
  const Encoded& At(uint64_t number) const { return encoded_[number - 1]; }

  void Installed(int who, const engine::Record& record);
  // `parts`: the encoded contributions in the result, ascending cluster.
  void Committed(int who, const engine::CommitRecord& record, Value value,
                 const std::vector<uint64_t>& parts);
  void Adopted(int who, engine::FragmentId fragment, const engine::StateId& state, Value value);
  void Told(int who, engine::FragmentId fragment, engine::OpId op, engine::OpState state,
            const engine::StateId& committed);

  const OracleCounts& counts() const { return counts_; }
  const std::vector<engine::Record>& records() const { return records_; }

 private:
  struct Entry {
    engine::CommitRecord record;
    Value value = 0;
    std::vector<uint64_t> parts;
    int previous = -1;
  };
  using Place = std::tuple<engine::Lineage, engine::FragmentId, engine::RoundNumber>;
  using ChainKey = std::pair<engine::FragmentId, engine::Hash256>;

  int EntryOf(engine::FragmentId fragment, const engine::Hash256& chain) const;
  bool OnChain(int entry, int head) const;
  void CheckContributions(const Entry& entry);
  bool CountedOn(engine::FragmentId fragment, engine::OpId op, const engine::Hash256& head) const;

  std::vector<Encoded> encoded_;
  std::vector<Entry> entries_;
  std::map<ChainKey, int> by_chain_;
  std::map<Place, engine::Hash256> decided_;  // what is committed there
  std::map<Place, engine::Hash256> lineage_base_;
  std::map<ChainKey, Value> values_;
  std::map<std::pair<int, engine::OpId>, std::vector<int>> counted_;
  std::map<std::pair<int, engine::OpId>, engine::Lineage> told_excluded_;  // in which
  std::map<engine::Epoch, int> seen_records_;
  std::vector<engine::Record> records_;
  OracleCounts counts_;
};

}  // namespace causeway::sim

#endif  // CAUSEWAY_TESTS_SIM_ORACLE_H_
