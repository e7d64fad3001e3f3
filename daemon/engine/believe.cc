// Which messages may be believed: from a known cluster in its present incarnation, to this one, and
// within the limits of the run. Everything an id of a peer may index is checked here.
#include "daemon/engine/core.h"

namespace causeway::engine {
namespace {

bool IsRoster(ClusterSet set, int clusters) {
  return ClusterSet::FirstOf(clusters).ContainsAll(set);
}

bool IsElectorate(const Electorate& electorate, int clusters) {
  if (electorate.voters.Empty() || !IsRoster(electorate.voters, clusters)) return false;
  return !electorate.primary || electorate.voters.Contains(*electorate.primary);
}

bool IsContributors(const std::vector<Contributor>& parts, int clusters) {
  int last = -1;
  for (const Contributor& part : parts) {
    if (part.cluster <= last || part.cluster >= clusters) return false;
    last = part.cluster;
  }
  return true;
}

bool IsRecord(const Record& record, int clusters) {
  if (record.epoch.None() || record.leader != record.epoch.candidate) return false;
  if (record.leader >= clusters || !IsRoster(record.members, clusters)) return false;
  if (!record.members.Contains(record.leader)) return false;
  if (record.incarnations.size() != static_cast<size_t>(clusters)) return false;
  if (record.base.empty() || record.base.size() > kFragmentsMax) return false;
  if (record.lineage_base.size() != record.base.size()) return false;
  if (record.old_electorate && !IsElectorate(*record.old_electorate, clusters)) return false;
  return IsElectorate(record.electorate, clusters);
}

bool IsReport(const Report& report) { return report.fragments.size() <= kFragmentsMax; }

// The body's own limits. `fragments`: how many this gateway knows of.
class Limits {
 public:
  Limits(int clusters, uint32_t fragments) : clusters_(clusters), fragments_(fragments) {}

  bool operator()(const Join& body) const { return body.fragments <= kFragmentsMax; }
  bool operator()(const Heartbeat& body) const { return IsReport(body.report); }
  bool operator()(const Ready& body) const { return Fragment(body.fragment); }
  bool operator()(const Contribution& body) const {
    return Fragment(body.fragment) && !body.op.None();
  }
  bool operator()(const Withdraw& body) const { return Fragment(body.fragment); }
  bool operator()(const Cut& body) const {
    return Fragment(body.fragment) && IsContributors(body.contributors, clusters_);
  }
  bool operator()(const Complete& body) const { return Fragment(body.fragment); }
  bool operator()(const Committed& body) const {
    return Fragment(body.record.fragment) && IsContributors(body.record.contributors, clusters_);
  }
  bool operator()(const Plan& body) const {
    return body.id != 0 && body.body.size() <= kPlanBytesMax;
  }
  bool operator()(const PreVote&) const { return true; }
  bool operator()(const Grant&) const { return true; }
  bool operator()(const Prepare&) const { return true; }
  bool operator()(const Promise& body) const {
    return IsReport(body.report) && (!body.accepted || IsRecord(*body.accepted, clusters_));
  }
  bool operator()(const Install& body) const { return IsRecord(body.record, clusters_); }
  bool operator()(const Accepted&) const { return true; }
  bool operator()(const Installed&) const { return true; }
  bool operator()(const Fetch& body) const { return Fragment(body.fragment); }
  bool operator()(const State& body) const {
    if (!Fragment(body.fragment) || body.records.size() > kCommitRecordsKept) return false;
    for (const CommitRecord& record : body.records) {
      if (record.fragment != body.fragment) return false;
      if (!IsContributors(record.contributors, clusters_)) return false;
    }
    return true;
  }

 private:
  bool Fragment(FragmentId id) const { return id < fragments_; }

  int clusters_;
  uint32_t fragments_;
};

}  // namespace

bool Core::Believable(ClusterId from, const Header& header, const Message& message) {
  const Config& config = context_.config;
  if (from >= config.clusters || from == config.self || header.from_incarnation == 0) return false;
  if (header.epoch.candidate >= config.clusters) return false;
  const bool early =
      std::holds_alternative<Join>(message) || std::holds_alternative<Heartbeat>(message);
  const bool blind = config.Planted(PlantedFault::kNoIncarnations);
  // JOIN and HEARTBEAT speak of their sender only. They count whomever they were meant for: two
  // processes that know each other's past selves could not find each other otherwise.
  if (!early && header.to_incarnation != config.incarnation && !blind) return false;
  // What an earlier process completed or knew to be committed stays true.
  const bool lasting =
      std::holds_alternative<Complete>(message) || std::holds_alternative<Committed>(message);
  const Incarnation before = context_.peers[from].incarnation;
  if (!context_.peers.Hear(from, header.from_incarnation, context_.now) && !lasting && !blind) {
    return false;
  }
  if (context_.peers[from].incarnation != before) liveness_.OnNewIncarnation(from);
  return std::visit(Limits(config.clusters, ledger_.size()), message);
}

}  // namespace causeway::engine
