// Wire form to engine messages. Hostile bytes end here.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

namespace e = engine;
namespace w = wan::v1;

// Collects the first error; getters return a harmless value after it.
class Decoder {
 public:
  explicit Decoder(const Roster& roster) : roster_(roster) {}

  const absl::Status& status() const { return status_; }
  void Fail(std::string text) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(text));
  }
  bool Bounded(const char* field, size_t count, size_t limit) {
    if (count <= limit) return true;
    Fail(absl::StrCat(field, ": ", count, " entries, at most ", limit));
    return false;
  }

  e::ClusterId Cluster(const char* field, const std::string& name) {
    if (auto id = roster_.Find(name)) return *id;
    Fail(absl::StrCat(field, ": '", name.substr(0, 64), "' is not a cluster of this run"));
    return 0;
  }
  template <typename Repeated>
  e::ClusterSet Clusters(const char* field, const Repeated& names) {
    e::ClusterSet out;
    if (!Bounded(field, names.size(), e::kClustersMax)) return out;
    for (const std::string& name : names) out.Insert(Cluster(field, name));
    return out;
  }
  e::Hash256 Hash(const char* field, const std::string& bytes) {
    e::Hash256 out{};
    if (bytes.empty()) return out;
    if (bytes.size() != out.size()) {
      Fail(absl::StrCat(field, ": a hash of ", bytes.size(), " bytes, not 32"));
      return out;
    }
    std::memcpy(out.data(), bytes.data(), out.size());
    return out;
  }
  e::Epoch Epoch(const w::Epoch& in) {
    if (in.counter() == 0) return {};
    if (in.counter() > e::kEpochCounterMax) {
      Fail(absl::StrCat("epoch.counter: ", in.counter(), ", at most ", e::kEpochCounterMax));
    }
    return {in.counter(), Cluster("epoch.candidate", in.candidate())};
  }
  e::FragmentId Fragment(uint32_t value) {
    if (value >= e::kFragmentsMax) Fail(absl::StrCat("fragment ", value, " is out of range"));
    return value;
  }
  e::RoundNumber Round(int64_t value) {
    if (value < 0 || value > e::kRoundMax) {
      Fail(absl::StrCat("round ", value, ": 0 to ", e::kRoundMax));
    }
    return value;
  }
  static e::OpId Op(const w::OpId& in) { return {in.session(), in.sequence()}; }
  e::StateId State(const w::StateId& in) {
    return {in.lineage(), Round(in.round()), Hash("chain", in.chain())};
  }
  e::Contributor ContributorOf(const w::Contributor& in) {
    return {Cluster("contributor", in.cluster()), in.incarnation(), Op(in.op()), in.weight(),
            in.plan()};
  }
  // In ascending cluster order without repeats, as sums run.
  template <typename Repeated>
  std::vector<e::Contributor> Contributors(const Repeated& in) {
    std::vector<e::Contributor> out;
    if (!Bounded("contributors", in.size(), e::kClustersMax)) return out;
    for (const w::Contributor& c : in) {
      out.push_back(ContributorOf(c));
      if (out.size() > 1 && out[out.size() - 2].cluster >= out.back().cluster) {
        Fail("contributors: not in ascending order of name");
      }
    }
    return out;
  }
  e::CommitRecord CommitRecordOf(const w::CommitRecord& in) {
    e::CommitRecord out;
    out.fragment = Fragment(in.fragment());
    out.state = State(in.state());
    out.epoch = Epoch(in.epoch());
    out.attempt = in.attempt();
    out.contributors = Contributors(in.contributors());
    out.result = Hash("result", in.result());
    out.previous_chain = Hash("previous_chain", in.previous_chain());
    return out;
  }
  e::Electorate ElectorateOf(const w::Electorate& in) {
    e::Electorate out;
    out.voters = Clusters("voters", in.voters());
    if (!in.primary().empty()) out.primary = Cluster("primary", in.primary());
    return out;
  }
  template <typename Repeated>
  std::vector<e::FragmentBase> Bases(const char* field, const Repeated& in) {
    std::vector<e::FragmentBase> out;
    if (!Bounded(field, in.size(), e::kFragmentsMax)) return out;
    for (const w::FragmentBase& base : in) {
      out.push_back({Round(base.round()), Hash("base.chain", base.chain())});
    }
    return out;
  }
  e::Record RecordOf(const w::Record& in) {
    e::Record out;
    out.founding = in.founding();
    out.epoch = Epoch(in.epoch());
    if (out.epoch.None()) Fail("record: no epoch");
    if (in.lineage() >= in.epoch().counter()) {
      Fail(absl::StrCat("record.lineage: ", in.lineage(), ", below the epoch's ",
                        in.epoch().counter()));
    }
    out.leader = Cluster("leader", in.leader());
    out.incarnations.assign(roster_.size(), 0);
    if (Bounded("members", in.members_size(), e::kClustersMax)) {
      for (const w::Member& member : in.members()) {
        const e::ClusterId id = Cluster("member", member.cluster());
        if (member.incarnation() == 0) Fail("member: no incarnation");
        out.members.Insert(id);
        out.incarnations[id] = member.incarnation();
      }
    }
    out.electorate = ElectorateOf(in.electorate());
    if (in.has_old_electorate()) out.old_electorate = ElectorateOf(in.old_electorate());
    out.lineage = in.lineage();
    out.base = Bases("base", in.base());
    out.lineage_base = Bases("lineage_base", in.lineage_base());
    out.rolled_back = in.rolled_back();
    out.stopped = in.stopped();
    out.schema = Hash("schema", in.schema());
    out.algorithm = Hash("algorithm", in.algorithm());
    return out;
  }
  e::FragmentReport FragmentReportOf(const w::FragmentReport& in) {
    e::FragmentReport out;
    out.holds = in.holds();
    out.offered = in.offered();
    out.committed = State(in.committed());
    out.complete = in.complete();
    out.complete_epoch = Epoch(in.complete_epoch());
    out.complete_round = Round(in.complete_round());
    out.complete_attempt = in.complete_attempt();
    out.complete_chain = Hash("complete_chain", in.complete_chain());
    out.attempt_seen = in.attempt_seen();
    out.attempt = in.attempt();
    return out;
  }
  e::Report ReportOf(const w::Report& in) {
    e::Report out;
    out.promised = Epoch(in.promised());
    out.accepted = Epoch(in.accepted());
    out.blank = in.blank();
    out.kept_memory = in.kept_memory();
    out.installed = in.installed();
    out.active = in.active();
    out.wants_join = in.wants_join();
    out.leaving = in.leaving();
    out.approves_rollback = in.approves_rollback();
    if (in.operator_wish() > kWishGoOn) Fail("report.operator_wish: not known");
    if (in.operator_wish() != 0) out.stop = in.operator_wish() == kWishStop;
    out.draining = in.draining();
    out.fetching = in.fetching();
    out.parameters = Hash("parameters", in.parameters());
    out.suspected = Clusters("suspected", in.suspected());
    if (in.has_growth()) {
      const w::Growth& growth = in.growth();
      out.growth = e::Growth{Hash("growth.from", growth.from()),
                             {Hash("growth.schema", growth.schema()), growth.fragments()},
                             Hash("growth.parameters", growth.parameters())};
      if (growth.fragments() > e::kFragmentsMax) Fail("growth.fragments: too many");
    }
    if (Bounded("fragments", in.fragments_size(), e::kFragmentsMax)) {
      for (const w::FragmentReport& f : in.fragments()) {
        out.fragments.push_back(FragmentReportOf(f));
      }
    }
    return out;
  }

  CheckpointHeader CheckpointOf(const w::Checkpoint& in) {
    CheckpointHeader out;
    out.run = in.run();
    out.cluster = in.cluster();
    out.schema = Hash("schema", in.schema());
    out.algorithm = Hash("algorithm", in.algorithm());
    out.fragment = Fragment(in.fragment());
    out.state = State(in.state());
    out.founding = in.founding();
    out.state_hash = Hash("state_hash", in.state_hash());
    if (Bounded("records", in.records_size(), e::kCommitRecordsKept)) {
      for (const w::CommitRecord& record : in.records()) {
        out.records.push_back(CommitRecordOf(record));
      }
    }
    if (Bounded("residual_weights", in.residual_weights_size(), kCheckpointChunksMax)) {
      out.residual_weights.assign(in.residual_weights().begin(), in.residual_weights().end());
    }
    if (Bounded("rule_words", in.rule_words_size(), kCheckpointWordsMax)) {
      out.rule_words.assign(in.rule_words().begin(), in.rule_words().end());
    }
    return out;
  }

  e::Join JoinOf(const w::Join& in) {
    e::Join out;
    out.schema_known = in.schema_known();
    out.schema = Hash("schema", in.schema());
    out.algorithm = Hash("algorithm", in.algorithm());
    out.fragments = in.fragments();
    if (out.fragments > e::kFragmentsMax) Fail("join: too many fragments");
    out.has_parameters = in.has_parameters();
    out.parameters = Hash("parameters", in.parameters());
    out.virgin = in.virgin();
    out.promised = Epoch(in.promised());
    return out;
  }
  e::State StateOf(const w::State& in) {
    e::State out;
    out.fragment = Fragment(in.fragment());
    out.state = State(in.state());
    if (Bounded("records", in.records_size(), e::kCommitRecordsKept)) {
      for (const w::CommitRecord& record : in.records()) {
        out.records.push_back(CommitRecordOf(record));
      }
    }
    return out;
  }
  e::Plan PlanOf(const w::Plan& in) {
    if (in.body().size() > e::kPlanBytesMax) Fail("plan: body too long");
    return {in.id(), Round(in.from_round()), in.body().substr(0, e::kPlanBytesMax)};
  }
  e::Complete CompleteOf(const w::Complete& in) {
    e::Complete out;
    out.fragment = Fragment(in.fragment());
    out.round = Round(in.round());
    out.attempt = in.attempt();
    out.result = Hash("result", in.result());
    out.previous_state = Hash("previous_state", in.previous_state());
    out.chain = Hash("chain", in.chain());
    return out;
  }
  e::Promise PromiseOf(const w::Promise& in) {
    e::Promise out;
    out.report = ReportOf(in.report());
    if (in.has_accepted()) out.accepted = RecordOf(in.accepted());
    return out;
  }

  e::Message Body(const w::RunMessage& in) {
    switch (in.body_case()) {
      case w::RunMessage::kJoin:
        return JoinOf(in.join());
      case w::RunMessage::kHeartbeat:
        return e::Heartbeat{ReportOf(in.heartbeat())};
      case w::RunMessage::kReady:
        return e::Ready{Fragment(in.ready().fragment()), Round(in.ready().round())};
      case w::RunMessage::kContribution: {
        const w::Contribution& m = in.contribution();
        return e::Contribution{Fragment(m.fragment()), Round(m.round()), Op(m.op()), m.weight(),
                               m.plan()};
      }
      case w::RunMessage::kWithdraw: {
        const w::Withdraw& m = in.withdraw();
        return e::Withdraw{Fragment(m.fragment()), Round(m.round()), m.attempt(), m.ready()};
      }
      case w::RunMessage::kCut: {
        const w::Cut& m = in.cut();
        return e::Cut{Fragment(m.fragment()), Round(m.round()), m.attempt(),
                      Contributors(m.contributors())};
      }
      case w::RunMessage::kComplete:
        return CompleteOf(in.complete());
      case w::RunMessage::kCommitted:
        return e::Committed{CommitRecordOf(in.committed().record())};
      case w::RunMessage::kPlan:
        return PlanOf(in.plan());
      case w::RunMessage::kPreVote:
        return e::PreVote{};
      case w::RunMessage::kGrant:
        return e::Grant{};
      case w::RunMessage::kPrepare:
        return e::Prepare{in.prepare().founding()};
      case w::RunMessage::kPromise:
        return PromiseOf(in.promise());
      case w::RunMessage::kInstall:
        return e::Install{RecordOf(in.install())};
      case w::RunMessage::kAccepted:
        return e::Accepted{};
      case w::RunMessage::kInstalled:
        return e::Installed{};
      case w::RunMessage::kFetch:
        return e::Fetch{Fragment(in.fetch().fragment()), in.fetch().holds(),
                        State(in.fetch().have())};
      case w::RunMessage::kState:
        return StateOf(in.state());
      default:
        Fail(absl::StrCat("message ", static_cast<int>(in.body_case()), " is not the engine's"));
        return e::PreVote{};
    }
  }

 private:
  const Roster& roster_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<engine::Envelope> DecodeEnvelope(const Roster& roster,
                                                const wan::v1::RunMessage& message) {
  Decoder decoder(roster);
  engine::Envelope out;
  out.header.epoch = decoder.Epoch(message.epoch());
  out.header.lineage = message.lineage();
  out.header.from_incarnation = message.from_incarnation();
  out.header.to_incarnation = message.to_incarnation();
  out.header.founding = message.founding();
  out.message = decoder.Body(message);
  if (!decoder.status().ok()) return decoder.status();
  return out;
}

absl::StatusOr<engine::Durable> DecodeDurable(const Roster& roster,
                                              const wan::v1::Durable& durable) {
  Decoder decoder(roster);
  engine::Durable out;
  out.promised = decoder.Epoch(durable.promised());
  if (durable.has_accepted()) out.accepted = decoder.RecordOf(durable.accepted());
  out.founding = durable.founding();
  if (!decoder.status().ok()) return decoder.status();
  return out;
}

absl::StatusOr<CheckpointHeader> DecodeCheckpoint(const Roster& roster,
                                                  const wan::v1::Checkpoint& message) {
  Decoder decoder(roster);
  CheckpointHeader out = decoder.CheckpointOf(message);
  if (!decoder.status().ok()) return decoder.status();
  return out;
}

absl::StatusOr<engine::Epoch> DecodeEpoch(const Roster& roster, const wan::v1::Epoch& epoch) {
  Decoder decoder(roster);
  engine::Epoch out = decoder.Epoch(epoch);
  if (!decoder.status().ok()) return decoder.status();
  return out;
}

}  // namespace causeway::run
