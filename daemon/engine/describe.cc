// Words for logs and traces.
#include <cstdio>
#include <sstream>

#include "daemon/engine/action.h"
#include "daemon/engine/event.h"
#include "daemon/engine/status.h"

namespace causeway::engine {
namespace {

class Words {
 public:
  template <typename T>
  Words& operator<<(const T& value) {
    out_ << value;
    return *this;
  }
  Words& operator<<(const Epoch& epoch) { return *this << ToString(epoch); }
  Words& operator<<(ClusterSet set) { return *this << ToString(set); }
  Words& operator<<(const StateId& state) { return *this << ToString(state); }
  Words& operator<<(const Hash256& hash) { return *this << ShortHex(hash); }
  Words& operator<<(const OpId& op) { return *this << op.session << ":" << op.sequence; }
  Words& operator<<(const std::vector<Contributor>& parts) {
    *this << "[";
    for (const Contributor& part : parts) {
      *this << " " << int{part.cluster} << "=" << part.op << "*" << part.weight;
    }
    return *this << " ]";
  }
  Words& Round(FragmentId fragment, RoundNumber round) {
    return *this << " f" << fragment << " r" << round;
  }
  Words& operator<<(const Report& report) {
    *this << " promised " << report.promised << " accepted " << report.accepted
          << (report.blank ? " blank" : "") << (report.kept_memory ? "" : " amnesiac")
          << (report.active ? " active" : "") << (report.wants_join ? " joins" : "");
    for (size_t i = 0; i < report.fragments.size() && i < 4; ++i) {
      const FragmentReport& fragment = report.fragments[i];
      *this << " f" << i << ":";
      if (fragment.holds) *this << fragment.committed;
      if (fragment.complete) {
        *this << "+c" << fragment.complete_round << "a" << fragment.complete_attempt << "@"
              << fragment.complete_epoch;
      }
    }
    return *this;
  }
  std::string Take() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void Say(Words& w, const Join& m) {
  w << (m.virgin ? " virgin" : "") << (m.schema_known ? " ready" : "");
}
void Say(Words& w, const Heartbeat& m) { w << m.report; }
void Say(Words& w, const Ready& m) { w.Round(m.fragment, m.round); }
void Say(Words& w, const Contribution& m) {
  w.Round(m.fragment, m.round) << " op " << m.op << " weight " << m.weight;
}
void Say(Words& w, const Withdraw& m) { w.Round(m.fragment, m.round) << " a" << m.attempt; }
void Say(Words& w, const Cut& m) {
  w.Round(m.fragment, m.round) << " a" << m.attempt << " " << m.contributors;
}
void Say(Words& w, const Complete& m) {
  w.Round(m.fragment, m.round) << " a" << m.attempt << " chain " << m.chain;
}
void Say(Words& w, const Committed& m) {
  w << " f" << m.record.fragment << " " << m.record.state << " " << m.record.contributors;
}
void Say(Words& w, const Plan& m) { w << " " << m.id << " from r" << m.from_round; }
void Say(Words&, const PreVote&) {}
void Say(Words&, const Grant&) {}
void Say(Words& w, const Prepare& m) { w << (m.founding ? " founding" : ""); }
void Say(Words& w, const Promise& m) { w << m.report; }
void Say(Words& w, const Record& record) {
  w << " members " << record.members << " voters " << record.electorate.voters << " lineage "
    << record.lineage << (record.rolled_back ? " ROLLED BACK" : "")
    << (record.stopped ? " STOPPED" : "");
  for (size_t i = 0; i < record.base.size() && i < 4; ++i) {
    w << " f" << i << ":r" << record.base[i].round << " " << record.base[i].chain;
  }
}
void Say(Words& w, const Install& m) { Say(w, m.record); }
void Say(Words&, const Accepted&) {}
void Say(Words&, const Installed&) {}
void Say(Words& w, const Fetch& m) { w << " f" << m.fragment; }
void Say(Words& w, const State& m) { w << " f" << m.fragment << " " << m.state; }

const char* const kMessageNames[] = {
    "JOIN",     "HEARTBEAT", "READY",    "CONTRIBUTION", "WITHDRAW", "CUT",
    "COMPLETE", "COMMITTED", "PLAN",     "PREVOTE",      "GRANT",    "PREPARE",
    "PROMISE",  "INSTALL",   "ACCEPTED", "INSTALLED",    "FETCH",    "STATE"};
static_assert(std::size(kMessageNames) == std::variant_size_v<Message>);

const char* const kEventNames[] = {"Start",          "TrainerJoined",    "TrainerGone",
                                   "PeerConnected",  "PeerDisconnected", "Received",
                                   "Progress",       "Submit",           "ResultHeld",
                                   "StateHeld",      "StateFailed",      "Persisted",
                                   "TrainerApplied", "ChangeElectorate", "LeaveRequested",
                                   "StopRequested",  "ApproveRollback",  "ProposePlan",
                                   "Timer"};
static_assert(std::size(kEventNames) == std::variant_size_v<Event>);

void Say(Words& w, const Send& a) { w << "Send to " << int{a.to} << " " << Describe(a.envelope); }
void Say(Words& w, const Persist& a) {
  w << "Persist " << a.token << " promised " << a.durable.promised << " accepted "
    << (a.durable.accepted ? ToString(a.durable.accepted->epoch) : "none");
}
void Say(Words& w, const StartContribution& a) {
  w << "StartContribution";
  w.Round(a.fragment, a.round) << " E" << a.epoch << " op " << a.op << " to " << a.to;
}
void Say(Words& w, const ResendContribution& a) {
  w << "ResendContribution";
  w.Round(a.fragment, a.round) << " E" << a.epoch << " op " << a.op << " to " << a.to;
}
void Say(Words& w, const Reduce& a) {
  w << "Reduce";
  w.Round(a.fragment, a.round) << " E" << a.epoch << " a" << a.attempt << " " << a.contributors;
}
void Say(Words& w, const Commit& a) {
  w << "Commit f" << a.record.fragment << " " << a.record.state << " E" << a.record.epoch << " a"
    << a.record.attempt << " " << a.record.contributors
    << (a.own == OwnPart::kCounted    ? " own counted"
        : a.own == OwnPart::kExcluded ? " own excluded"
                                      : "");
}
void Say(Words& w, const DropAttempts& a) {
  w << "DropAttempts";
  w.Round(a.fragment, a.round) << " E" << a.epoch << " a<=" << a.attempt;
}
void Say(Words& w, const ReleaseRetained& a) {
  w << "ReleaseRetained f" << a.fragment << " op " << a.op;
}
void Say(Words& w, const FetchState& a) {
  w << "FetchState f" << a.fragment << " " << a.state << " from " << a.donors;
}
void Say(Words& w, const AdoptState& a) {
  w << "AdoptState f" << a.fragment << " " << a.state << (a.from_trainer ? " from trainer" : "")
    << (a.forward ? " forward" : "");
}
void Say(Words& w, const RolledBack& a) {
  w << "RolledBack f" << a.fragment << " from " << a.from << " to " << a.to
    << (a.holds ? " holds" : "");
}
void Say(Words& w, const OpChanged& a) {
  w << "OpChanged f" << a.fragment << " op " << a.op << " " << OpStateName(a.state) << " r"
    << a.round << " awaits " << a.awaited << " " << a.reason;
}
void Say(Words& w, const EpochInstalled& a) {
  w << "EpochInstalled " << a.record.epoch;
  Say(w, a.record);
}
void Say(Words& w, const RunFormed& a) { w << "RunFormed seed " << int{a.seed}; }
void Say(Words& w, const Fenced& a) { w << "Fenced below " << a.promised << ": " << a.reason; }
void Say(Words& w, const Fatal& a) {
  w << "Fatal " << FatalKindName(a.kind) << " cluster " << int{a.cluster};
  w.Round(a.fragment, a.round) << ": " << a.detail;
}
void Say(Words& w, const RollbackNeeded& a) {
  w << "RollbackNeeded missing " << a.missing << (a.restorable ? "" : " nobody holds it all");
}
void Say(Words& w, const PlanKnown& a) { w << "PlanKnown " << a.plan.id; }
void Say(Words& w, const JoinRefused& a) {
  w << "JoinRefused " << FatalKindName(a.kind) << " cluster " << int{a.cluster};
}
void Say(Words& w, const ForeignRun& a) { w << "ForeignRun cluster " << int{a.cluster}; }
void Say(Words& w, const Note& a) { w << "Note " << a.text; }

}  // namespace

std::string ToString(const Epoch& epoch) {
  return std::to_string(epoch.counter) + "." + std::to_string(epoch.candidate);
}

std::string ToString(ClusterSet set) {
  std::string out = "{";
  for (ClusterId id : set) out += (out.size() > 1 ? "," : "") + std::to_string(id);
  return out + "}";
}

std::string ShortHex(const Hash256& hash) {
  char text[9];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3]);
  return text;
}

std::string ToString(const StateId& state) {
  return "l" + std::to_string(state.lineage) + " r" + std::to_string(state.round) + " " +
         ShortHex(state.chain);
}

const char* MessageName(const Message& message) { return kMessageNames[message.index()]; }

const char* EventName(const Event& event) { return kEventNames[event.index()]; }

std::string Describe(const Envelope& envelope) {
  Words words;
  words << MessageName(envelope.message) << " E" << envelope.header.epoch << " l"
        << envelope.header.lineage;
  std::visit([&](const auto& body) { Say(words, body); }, envelope.message);
  return words.Take();
}

std::string Describe(const Action& action) {
  Words words;
  std::visit([&](const auto& body) { Say(words, body); }, action);
  return words.Take();
}

const char* OpStateName(OpState state) {
  switch (state) {
    case OpState::kPending:
      return "pending";
    case OpState::kStalled:
      return "stalled";
    case OpState::kCommitted:
      return "committed";
    case OpState::kExcluded:
      return "excluded";
    case OpState::kFailed:
      return "failed";
    case OpState::kRebase:
      return "rebase";
  }
  return "unknown";
}

const char* FatalKindName(FatalKind kind) {
  switch (kind) {
    case FatalKind::kHashMismatch:
      return "hash mismatch";
    case FatalKind::kSchema:
      return "schema";
    case FatalKind::kAlgorithm:
      return "algorithm";
    case FatalKind::kIdentity:
      return "identity";
    case FatalKind::kProtocol:
      return "protocol";
  }
  return "unknown";
}

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForming:
      return "forming";
    case Phase::kJoining:
      return "joining";
    case Phase::kChanging:
      return "changing";
    case Phase::kActive:
      return "active";
    case Phase::kStalled:
      return "stalled";
    case Phase::kHalted:
      return "halted";
    case Phase::kStopped:
      return "stopped";
  }
  return "unknown";
}

}  // namespace causeway::engine
