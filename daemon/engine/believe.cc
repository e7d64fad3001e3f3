// Which messages may be believed: from a known cluster in its present incarnation, to this one, and
// within the limits of the run. Everything an id of a peer may index is checked here, and every
// number that others build on.
#include <algorithm>

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

bool IsRound(RoundNumber round) { return round >= 0 && round <= kRoundMax; }

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
  if (record.lineage >= record.epoch.counter) return false;  // each began with an epoch of its own
  for (size_t id = 0; id < record.base.size(); ++id) {
    if (!IsRound(record.base[id].round) || !IsRound(record.lineage_base[id].round)) return false;
  }
  if (record.old_electorate && !IsElectorate(*record.old_electorate, clusters)) return false;
  return IsElectorate(record.electorate, clusters);
}

bool IsCommit(const CommitRecord& record, int clusters) {
  return IsRound(record.state.round) && record.attempt <= kAttemptMax &&
         IsContributors(record.contributors, clusters);
}

bool IsReport(const Report& report, int clusters) {
  if (report.promised.candidate >= clusters || report.accepted.candidate >= clusters) return false;
  if (report.fragments.size() > kFragmentsMax || !IsRoster(report.suspected, clusters))
    return false;
  return std::all_of(
      report.fragments.begin(), report.fragments.end(), [](const FragmentReport& fragment) {
        return IsRound(fragment.committed.round) && IsRound(fragment.complete_round) &&
               fragment.complete_attempt <= kAttemptMax && fragment.attempt <= kAttemptMax;
      });
}

// The body's own limits. `fragments`: how many this gateway knows of.
class Limits {
 public:
  Limits(int clusters, uint32_t fragments) : clusters_(clusters), fragments_(fragments) {}

  bool operator()(const Join& body) const { return body.fragments <= kFragmentsMax; }
  bool operator()(const Heartbeat& body) const { return IsReport(body.report, clusters_); }
  bool operator()(const Ready& body) const { return Place(body.fragment, body.round); }
  bool operator()(const Contribution& body) const {
    return Place(body.fragment, body.round) && !body.op.None();
  }
  bool operator()(const Withdraw& body) const {
    return Place(body.fragment, body.round) && body.attempt <= kAttemptMax;
  }
  bool operator()(const Cut& body) const {
    return Place(body.fragment, body.round) && body.attempt <= kAttemptMax &&
           IsContributors(body.contributors, clusters_);
  }
  bool operator()(const Complete& body) const {
    return Place(body.fragment, body.round) && body.attempt <= kAttemptMax;
  }
  bool operator()(const Committed& body) const {
    return Fragment(body.record.fragment) && IsCommit(body.record, clusters_);
  }
  bool operator()(const Plan& body) const {
    return body.id != 0 && IsRound(body.from_round) && body.body.size() <= kPlanBytesMax;
  }
  bool operator()(const PreVote&) const { return true; }
  bool operator()(const Grant&) const { return true; }
  bool operator()(const Prepare&) const { return true; }
  bool operator()(const Promise& body) const {
    return IsReport(body.report, clusters_) &&
           (!body.accepted || IsRecord(*body.accepted, clusters_));
  }
  bool operator()(const Install& body) const { return IsRecord(body.record, clusters_); }
  bool operator()(const Accepted&) const { return true; }
  bool operator()(const Installed&) const { return true; }
  bool operator()(const Fetch& body) const { return Place(body.fragment, body.have.round); }
  bool operator()(const State& body) const {
    if (!Place(body.fragment, body.state.round)) return false;
    if (body.records.size() > kCommitRecordsKept) return false;
    return std::all_of(body.records.begin(), body.records.end(), [&](const CommitRecord& record) {
      return record.fragment == body.fragment && IsCommit(record, clusters_);
    });
  }

 private:
  bool Fragment(FragmentId id) const { return id < fragments_; }
  bool Place(FragmentId id, RoundNumber round) const { return Fragment(id) && IsRound(round); }

  int clusters_;
  uint32_t fragments_;
};

// The highest number of an epoch or lineage in a body that passed its limits.
class Highest {
 public:
  uint64_t operator()(const Join& body) const { return body.promised.counter; }
  uint64_t operator()(const Heartbeat& body) const { return Of(body.report); }
  uint64_t operator()(const Committed& body) const { return Of(body.record); }
  uint64_t operator()(const Promise& body) const {
    return std::max(Of(body.report), body.accepted ? body.accepted->epoch.counter : 0);
  }
  uint64_t operator()(const Install& body) const { return body.record.epoch.counter; }
  uint64_t operator()(const Fetch& body) const { return body.have.lineage; }
  uint64_t operator()(const State& body) const {
    uint64_t highest = body.state.lineage;
    for (const CommitRecord& record : body.records) highest = std::max(highest, Of(record));
    return highest;
  }
  template <typename Body>
  uint64_t operator()(const Body&) const {
    return 0;  // names none but the header's
  }

 private:
  static uint64_t Of(const CommitRecord& record) {
    return std::max(record.epoch.counter, record.state.lineage);
  }
  static uint64_t Of(const Report& report) {
    uint64_t highest = std::max(report.promised.counter, report.accepted.counter);
    for (const FragmentReport& fragment : report.fragments) {
      highest = std::max({highest, fragment.committed.lineage, fragment.complete_epoch.counter});
    }
    return highest;
  }
};

// The founding that a message speaks of; 0: none.
FoundingId FoundingOf(const Header& header, const Message& message) {
  if (const auto* install = std::get_if<Install>(&message)) return install->record.founding;
  const auto* promise = std::get_if<Promise>(&message);
  return promise && promise->accepted ? promise->accepted->founding : header.founding;
}

}  // namespace

// Whoever holds this run as it was founded another time is not heard: a disk that was put back, or
// one that missed that the run was forgotten, may name the highest epoch and the highest rounds.
bool Core::SameRun(ClusterId from, const Header& header, const Message& message) {
  const FoundingId ours = context_.founding();
  const bool same =
      SameFounding(header.founding, ours) && SameFounding(FoundingOf(header, message), ours);
  Peer& peer = context_.peers[from];
  if (same) {
    if (header.from_incarnation > peer.foreign) peer.foreign = 0;
    return true;
  }
  if (header.from_incarnation >= peer.incarnation && header.from_incarnation > peer.foreign) {
    peer.foreign = header.from_incarnation;
    peer.report.reset();
    peer.join.reset();
    context_.Act(ForeignRun{from});
  }
  return false;
}

// No single voice may use up the numbers of epochs.
bool Core::WithinHorizon(ClusterId from, const Header& header, const Message& message) {
  const uint64_t named =
      std::max({header.epoch.counter, header.lineage, std::visit(Highest(), message)});
  Horizon& horizon = context_.horizon;
  if (horizon.Reaches(named)) return true;
  if (horizon.Claim(from, named)) {
    context_.Warn(
        "cluster " + std::to_string(int{from}) + " names epoch " + std::to_string(named) +
        "; up to " + std::to_string(horizon.Limit()) +
        " is believed now: its words are dropped until others name it too, or time passes");
  }
  return false;
}

bool Core::Believable(ClusterId from, const Header& header, const Message& message) {
  const Config& config = context_.config;
  if (from >= config.clusters || from == config.self || header.from_incarnation == 0) return false;
  if (header.epoch.candidate >= config.clusters) return false;
  if (!SameRun(from, header, message)) return false;
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
  return std::visit(Limits(config.clusters, ledger_.size()), message) &&
         WithinHorizon(from, header, message);
}

}  // namespace causeway::engine
