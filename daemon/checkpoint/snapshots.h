// The labelled snapshots of one run: a directory a label, in which the fragments lie as in a store
// of checkpoints. The newest few labels are kept.
//
// Blocking file work without state of its own; changes from one thread at a time. Does not: decide
// what belongs under a label, or whether what lies there is of the run.
#ifndef CAUSEWAY_DAEMON_CHECKPOINT_SNAPSHOTS_H_
#define CAUSEWAY_DAEMON_CHECKPOINT_SNAPSHOTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/checkpoint/store.h"

namespace causeway::checkpoint {

class Snapshots {
 public:
  // Touches nothing yet. The parent of `directory` exists.
  explicit Snapshots(std::string directory) : directory_(std::move(directory)) {}

  // Where the fragments of a label lie. `label` has no slash.
  Store Of(const std::string& label) const { return Store(directory_ + "/" + label); }
  // The oldest first.
  std::vector<std::string> Labels() const;
  // Begins a label anew: what lay there goes, and as many of the oldest that it is one of `kept`.
  absl::Status Begin(const std::string& label, size_t kept) const;
  // Lets a run go on from a label: its files, each whole, take the place of `to`'s, which are set
  // aside. NOT_FOUND names the labels that there are; FAILED_PRECONDITION: a fragment that `to` has
  // is missing. Nobody may be writing either. Returns the number of fragments.
  absl::StatusOr<size_t> Restore(const std::string& label, const Store& to) const;

 private:
  const std::string directory_;
};

}  // namespace causeway::checkpoint

#endif  // CAUSEWAY_DAEMON_CHECKPOINT_SNAPSHOTS_H_
