// The clusters of one run, sorted by name: the engine's ClusterId is an index here. Immutable.
#ifndef CAUSEWAY_DAEMON_RUN_ROSTER_H_
#define CAUSEWAY_DAEMON_RUN_ROSTER_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/ids.h"

namespace causeway::run {

class Roster {
 public:
  // Names are unique, at most engine::kClustersMax (the configuration's parser checks it).
  explicit Roster(std::vector<std::string> names) : names_(std::move(names)) {
    std::sort(names_.begin(), names_.end());
  }

  int size() const { return static_cast<int>(names_.size()); }
  const std::string& Name(engine::ClusterId id) const { return names_.at(id); }
  std::optional<engine::ClusterId> Find(const std::string& name) const {
    auto it = std::lower_bound(names_.begin(), names_.end(), name);
    if (it == names_.end() || *it != name) return std::nullopt;
    return static_cast<engine::ClusterId>(it - names_.begin());
  }
  std::vector<std::string> Names(engine::ClusterSet set) const {
    std::vector<std::string> out;
    for (engine::ClusterId id : set) {
      if (id < names_.size()) out.push_back(names_[id]);
    }
    return out;
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_ROSTER_H_
