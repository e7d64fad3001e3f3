// Engine messages to wire form.
#include <variant>

#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

namespace e = engine;
namespace w = wan::v1;

class Encoder {
 public:
  explicit Encoder(const Roster& roster) : roster_(roster) {}

  void Epoch(const e::Epoch& in, w::Epoch* out) const {
    if (in.None()) return;
    out->set_counter(in.counter);
    out->set_candidate(roster_.Name(in.candidate));
  }
  static std::string Hash(const e::Hash256& in) {
    if (e::IsZero(in)) return {};
    return std::string(reinterpret_cast<const char*>(in.data()), in.size());
  }
  static void Op(const e::OpId& in, w::OpId* out) {
    out->set_session(in.session);
    out->set_sequence(in.sequence);
  }
  static void State(const e::StateId& in, w::StateId* out) {
    out->set_lineage(in.lineage);
    out->set_round(in.round);
    out->set_chain(Hash(in.chain));
  }
  template <typename Repeated>
  void Names(e::ClusterSet in, Repeated* out) const {
    for (const std::string& name : roster_.Names(in)) *out->Add() = name;
  }
  void ContributorOf(const e::Contributor& in, w::Contributor* out) const {
    out->set_cluster(roster_.Name(in.cluster));
    out->set_incarnation(in.incarnation);
    Op(in.op, out->mutable_op());
    out->set_weight(in.weight);
    out->set_plan(in.plan);
  }
  void CommitRecordOf(const e::CommitRecord& in, w::CommitRecord* out) const {
    out->set_fragment(in.fragment);
    State(in.state, out->mutable_state());
    Epoch(in.epoch, out->mutable_epoch());
    out->set_attempt(in.attempt);
    for (const e::Contributor& c : in.contributors) ContributorOf(c, out->add_contributors());
    out->set_result(Hash(in.result));
    out->set_previous_chain(Hash(in.previous_chain));
  }
  void ElectorateOf(const e::Electorate& in, w::Electorate* out) const {
    Names(in.voters, out->mutable_voters());
    if (in.primary) out->set_primary(roster_.Name(*in.primary));
  }
  static void Base(const e::FragmentBase& in, w::FragmentBase* out) {
    out->set_round(in.round);
    out->set_chain(Hash(in.chain));
  }
  void RecordOf(const e::Record& in, w::Record* out) const {
    out->set_founding(in.founding);
    Epoch(in.epoch, out->mutable_epoch());
    out->set_leader(roster_.Name(in.leader));
    for (e::ClusterId id : in.members) {
      w::Member* member = out->add_members();
      member->set_cluster(roster_.Name(id));
      member->set_incarnation(in.incarnations.at(id));
    }
    ElectorateOf(in.electorate, out->mutable_electorate());
    if (in.old_electorate) ElectorateOf(*in.old_electorate, out->mutable_old_electorate());
    out->set_lineage(in.lineage);
    for (const e::FragmentBase& base : in.base) Base(base, out->add_base());
    for (const e::FragmentBase& base : in.lineage_base) Base(base, out->add_lineage_base());
    out->set_rolled_back(in.rolled_back);
    out->set_stopped(in.stopped);
    out->set_schema(Hash(in.schema));
    out->set_algorithm(Hash(in.algorithm));
  }
  void ReportOf(const e::Report& in, w::Report* out) const {
    Epoch(in.promised, out->mutable_promised());
    Epoch(in.accepted, out->mutable_accepted());
    out->set_blank(in.blank);
    out->set_kept_memory(in.kept_memory);
    out->set_installed(in.installed);
    out->set_active(in.active);
    out->set_wants_join(in.wants_join);
    out->set_leaving(in.leaving);
    out->set_approves_rollback(in.approves_rollback);
    if (in.stop) out->set_operator_wish(*in.stop ? kWishStop : kWishGoOn);
    out->set_draining(in.draining);
    out->set_fetching(in.fetching);
    out->set_parameters(Hash(in.parameters));
    Names(in.suspected, out->mutable_suspected());
    if (in.growth) {
      out->mutable_growth()->set_from(Hash(in.growth->from));
      out->mutable_growth()->set_schema(Hash(in.growth->schema.digest));
      out->mutable_growth()->set_fragments(in.growth->schema.fragments);
      out->mutable_growth()->set_parameters(Hash(in.growth->parameters));
    }
    for (const e::FragmentReport& f : in.fragments) FragmentReportOf(f, out->add_fragments());
  }
  void FragmentReportOf(const e::FragmentReport& in, w::FragmentReport* out) const {
    out->set_holds(in.holds);
    out->set_offered(in.offered);
    State(in.committed, out->mutable_committed());
    if (in.complete) {
      out->set_complete(true);
      Epoch(in.complete_epoch, out->mutable_complete_epoch());
      out->set_complete_round(in.complete_round);
      out->set_complete_attempt(in.complete_attempt);
      out->set_complete_chain(Hash(in.complete_chain));
    }
    out->set_attempt_seen(in.attempt_seen);
    out->set_attempt(in.attempt);
  }

  // One overload a message; the visitor below fills the oneof.
  void Body(const e::Join& in, w::RunMessage* out) const {
    w::Join* m = out->mutable_join();
    m->set_schema_known(in.schema_known);
    m->set_schema(Hash(in.schema));
    m->set_algorithm(Hash(in.algorithm));
    m->set_fragments(in.fragments);
    m->set_has_parameters(in.has_parameters);
    m->set_parameters(Hash(in.parameters));
    m->set_virgin(in.virgin);
    Epoch(in.promised, m->mutable_promised());
  }
  void Body(const e::Heartbeat& in, w::RunMessage* out) const {
    ReportOf(in.report, out->mutable_heartbeat());
  }
  void Body(const e::Ready& in, w::RunMessage* out) const {
    out->mutable_ready()->set_fragment(in.fragment);
    out->mutable_ready()->set_round(in.round);
  }
  void Body(const e::Contribution& in, w::RunMessage* out) const {
    w::Contribution* m = out->mutable_contribution();
    m->set_fragment(in.fragment);
    m->set_round(in.round);
    m->set_plan(in.plan);
    Op(in.op, m->mutable_op());
    m->set_weight(in.weight);
  }
  void Body(const e::Withdraw& in, w::RunMessage* out) const {
    w::Withdraw* m = out->mutable_withdraw();
    m->set_fragment(in.fragment);
    m->set_round(in.round);
    m->set_attempt(in.attempt);
    m->set_gone(true);  // earlier builds ask for it
    m->set_ready(in.ready);
  }
  void Body(const e::Cut& in, w::RunMessage* out) const {
    w::Cut* m = out->mutable_cut();
    m->set_fragment(in.fragment);
    m->set_round(in.round);
    m->set_attempt(in.attempt);
    for (const e::Contributor& c : in.contributors) ContributorOf(c, m->add_contributors());
  }
  void Body(const e::Complete& in, w::RunMessage* out) const {
    w::Complete* m = out->mutable_complete();
    m->set_fragment(in.fragment);
    m->set_round(in.round);
    m->set_attempt(in.attempt);
    m->set_result(Hash(in.result));
    m->set_previous_state(Hash(in.previous_state));
    m->set_chain(Hash(in.chain));
  }
  void Body(const e::Committed& in, w::RunMessage* out) const {
    CommitRecordOf(in.record, out->mutable_committed()->mutable_record());
  }
  void Body(const e::Plan& in, w::RunMessage* out) const {
    out->mutable_plan()->set_id(in.id);
    out->mutable_plan()->set_from_round(in.from_round);
    out->mutable_plan()->set_body(in.body);
  }
  void Body(const e::PreVote&, w::RunMessage* out) const { out->mutable_pre_vote(); }
  void Body(const e::Grant&, w::RunMessage* out) const { out->mutable_grant(); }
  void Body(const e::Prepare& in, w::RunMessage* out) const {
    out->mutable_prepare()->set_founding(in.founding);
  }
  void Body(const e::Promise& in, w::RunMessage* out) const {
    ReportOf(in.report, out->mutable_promise()->mutable_report());
    if (in.accepted) RecordOf(*in.accepted, out->mutable_promise()->mutable_accepted());
  }
  void Body(const e::Install& in, w::RunMessage* out) const {
    RecordOf(in.record, out->mutable_install());
  }
  void Body(const e::Accepted&, w::RunMessage* out) const { out->mutable_accepted(); }
  void Body(const e::Installed&, w::RunMessage* out) const { out->mutable_installed(); }
  void Body(const e::Fetch& in, w::RunMessage* out) const {
    w::Fetch* m = out->mutable_fetch();
    m->set_fragment(in.fragment);
    m->set_holds(in.holds);
    State(in.have, m->mutable_have());
  }
  void Body(const e::State& in, w::RunMessage* out) const {
    w::State* m = out->mutable_state();
    m->set_fragment(in.fragment);
    State(in.state, m->mutable_state());
    for (const e::CommitRecord& record : in.records) CommitRecordOf(record, m->add_records());
  }

 private:
  const Roster& roster_;
};

}  // namespace

wan::v1::RunMessage EncodeEnvelope(const std::string& run, const Roster& roster,
                                   const engine::Envelope& envelope) {
  const Encoder encoder(roster);
  w::RunMessage out;
  out.set_run(run);
  encoder.Epoch(envelope.header.epoch, out.mutable_epoch());
  out.set_lineage(envelope.header.lineage);
  out.set_from_incarnation(envelope.header.from_incarnation);
  out.set_to_incarnation(envelope.header.to_incarnation);
  out.set_founding(envelope.header.founding);
  std::visit([&](const auto& message) { encoder.Body(message, &out); }, envelope.message);
  return out;
}

wan::v1::Durable EncodeDurable(const Roster& roster, const engine::Durable& durable) {
  const Encoder encoder(roster);
  w::Durable out;
  encoder.Epoch(durable.promised, out.mutable_promised());
  if (durable.accepted) encoder.RecordOf(*durable.accepted, out.mutable_accepted());
  out.set_founding(durable.founding);
  return out;
}

wan::v1::Checkpoint EncodeCheckpoint(const Roster& roster, const CheckpointHeader& header) {
  const Encoder encoder(roster);
  w::Checkpoint out;
  out.set_run(header.run);
  out.set_cluster(header.cluster);
  out.set_schema(Encoder::Hash(header.schema));
  out.set_algorithm(Encoder::Hash(header.algorithm));
  out.set_fragment(header.fragment);
  Encoder::State(header.state, out.mutable_state());
  out.set_founding(header.founding);
  out.set_state_hash(Encoder::Hash(header.state_hash));
  for (const e::CommitRecord& record : header.records) {
    encoder.CommitRecordOf(record, out.add_records());
  }
  out.mutable_residual_weights()->Add(header.residual_weights.begin(),
                                      header.residual_weights.end());
  out.mutable_rule_words()->Add(header.rule_words.begin(), header.rule_words.end());
  return out;
}

wan::v1::Epoch EncodeEpoch(const Roster& roster, const engine::Epoch& epoch) {
  w::Epoch out;
  Encoder(roster).Epoch(epoch, &out);
  return out;
}

}  // namespace causeway::run
