// A trainer's operations: submitted, followed, answered.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr size_t kValuesKnownMax = 4;  // of a fragment, by the trainer

trainers::Problem Retry(local::Code code, std::string text) {
  trainers::Problem out;
  out.code = code;
  out.retryable = true;
  out.text = std::move(text);
  return out;
}

}  // namespace

std::optional<trainers::Problem> Run::CheckSubmit(const trainers::Session& session,
                                                  const trainers::SubmitRequest& request) {
  if (draining_) {
    return Retry(local::Code::kDraining, "this gateway is shutting down; submit again later");
  }
  if (!trainer_->ranks.at(session.rank()).ready) {
    return Retry(local::Code::kNotReady, "the run is not ready; wait for Ready");
  }
  if (request.memory == local::Memory::kDevice && trainer_->device == nullptr) {
    trainers::Problem problem;  // another Join came after that Share
    problem.code = local::Code::kProtocol;
    problem.fatal = true;
    problem.text = "Submit: the device memory that was shared is another schema's; Share again";
    return problem;
  }
  if (trainer_->world > 1 &&
      request.op != local::OpNumber(request.fragment, request.base_round)) {
    trainers::Problem problem;
    problem.code = local::Code::kProtocol;
    problem.text = absl::StrCat("op ", request.op, " is not the number that the ranks of a cluster ",
                                "give to fragment ", request.fragment, " on round ",
                                request.base_round);
    return problem;
  }
  auto known = trainer_->ops.find(request.fragment);
  if (known == trainer_->ops.end()) return std::nullopt;
  const LocalOp& op = known->second;
  // Others may still read the result that this rank has applied.
  if (op.reported && op.applied.count(session.rank()) != 0) return std::nullopt;
  if (op.op == request.op && op.submits.count(session.rank()) == 0) return std::nullopt;
  if (op.handed_over || op.submits.size() == trainer_->world ||
      op.base_round == request.base_round) {
    return Retry(local::Code::kBusy,
                 absl::StrCat("fragment ", request.fragment,
                              " has an operation whose result is not applied yet"));
  }
  return Retry(local::Code::kRebase,
               absl::StrCat("the ranks of this cluster submitted fragment ", request.fragment,
                            " on rounds ", op.base_round, " and ", request.base_round));
}

void Run::OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) {
  if (std::optional<trainers::Problem> problem = CheckSubmit(session, request)) {
    problem->round = request.base_round + 1;
    if (problem->code == local::Code::kRebase) {  // all of them start again from one value
      problem->round = exchange_->state(request.fragment).committed().round;
      EndRebased(trainer_->ops.at(request.fragment),
                 absl::StrCat("the ranks of this cluster submitted fragment ", request.fragment,
                              " on different rounds"));
    }
    session.SendError(request.sequence, *problem);
    return;
  }
  auto known = trainer_->ops.find(request.fragment);
  if (known != trainer_->ops.end() && known->second.op != request.op) trainer_->ops.erase(known);
  LocalOp& op = trainer_->ops[request.fragment];
  op.session = trainer_->session;
  op.op = request.op;
  op.fragment = request.fragment;
  op.base_round = request.base_round;
  op.origin = request.origin;
  op.device = request.memory == local::Memory::kDevice ? trainer_->device : nullptr;
  const uint64_t room = std::numeric_limits<uint64_t>::max() - op.weight;
  op.weight += std::min(room, request.weight);
  op.submits[session.rank()] = request.sequence;
  if (!request.label.empty() && HasOuterRule(config_)) {
    checkpoints_.Keep(request.fragment, request.base_round + 1, request.label);
  }
  // What the other ranks do with their parts is no reason for this one to wait.
  if (trainer_->world > 1) {
    session.SendSubmitted(request.sequence, request.op, request.base_round + 1);
  }
  if (op.submits.size() < trainer_->world) return;
  op.submitted_us = loop::Now();
  OnWhole(op);
}

// Every rank's part is in the snapshot.
void Run::OnWhole(const LocalOp& op) {
  around_.metrics->payload_bytes.With({name(), "submitted"})
      .Add(static_cast<double>(layout_->fragments()[op.fragment].elements * sizeof(float)));
  if (!HasOuterRule(config_)) {  // a NaN gradient is the result's flag, one verdict for all
    HandOver(op.fragment);
    return;
  }
  using Found = absl::StatusOr<std::optional<std::string>>;
  auto nonfinite = std::make_shared<Found>(std::nullopt);  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, id = op.id(), fragment = op.fragment,
                           device = op.device, nonfinite, loop = around_.loop, alive = std::weak_ptr<bool>(alive_)] {
    *nonfinite = endpoint->NonFiniteIn(device.get(), fragment);
    loop->Post([this, alive, id, fragment, nonfinite] {
      if (alive.expired()) return;
      if (!nonfinite->ok()) {
        OnDeviceFailed(nonfinite->status());
        return;
      }
      if (!trainer_) return;
      auto found = trainer_->ops.find(fragment);
      if (found == trainer_->ops.end() || found->second.id() != id) return;
      if (!**nonfinite) {
        HandOver(fragment);
        return;
      }
      const LocalOp refused = found->second;
      trainer_->ops.erase(found);
      trainers::Problem problem;
      problem.code = local::Code::kNonfinite;
      problem.tensor = ***nonfinite;
      problem.round = refused.base_round + 1;
      problem.text =
          absl::StrCat("tensor '", ***nonfinite, "' holds NaN or Inf; nothing of it was sent");
      around_.metrics->screened_updates.With({name(), "nonfinite"}).Add(1);
      EndRefused(refused, problem);
    });
  });
}

// With one rank the Submit still waits for its answer; with several each was told Submitted.
void Run::EndRefused(const LocalOp& op, const trainers::Problem& problem) {
  ForEachRank([&](trainers::Session& session, uint32_t number, LocalRank&) {
    auto submit = op.submits.find(number);
    if (submit == op.submits.end()) return;
    if (trainer_->world == 1) {
      session.SendError(submit->second, problem);
      return;
    }
    session.SendError(0, problem);
    trainers::OpReport report = ReportOf(op, local::State::kFailed, nullptr);
    report.code = problem.code;
    report.round = problem.round;
    session.SendOpState(0, report);
  });
}

void Run::EndRebased(const LocalOp& op, std::string text) {
  trainers::Problem problem = Retry(local::Code::kRebase, std::move(text));
  problem.round = exchange_->state(op.fragment).committed().round;
  const LocalOp ended = op;
  trainer_->ops.erase(op.fragment);
  EndRefused(ended, problem);
}

void Run::HandOver(uint32_t fragment) {
  LocalOp& op = trainer_->ops.at(fragment);
  // A gateway that has restarted holds the newest value only.
  if (op.origin == local::Origin::kOlder && !endpoint_->Holds(fragment, op.base_round - 1)) {
    EndRebased(op, absl::StrCat("fragment ", fragment, ": the value of round ", op.base_round - 1,
                                ", which the local work started from, is not here any more"));
    return;
  }
  endpoint_->SetOrigin(fragment, op.origin);
  op.handed_over = true;
  if (trainer_->world == 1) {
    ForEachRank([&](trainers::Session& session, uint32_t number, LocalRank&) {
      session.SendSubmitted(op.submits.at(number), op.op, op.base_round + 1);
    });
  }
  engine::Submit submit;
  submit.fragment = op.fragment;
  // The same number may name another value after a rollback.
  submit.base.lineage = exchange_->state(op.fragment).committed().lineage;
  submit.base.round = op.base_round;
  for (const engine::StateId& value : trainer_->values[op.fragment]) {
    if (value.round == op.base_round) submit.base = value;
  }
  submit.weight = CountedWeight(config_.algorithm, op.weight);
  submit.op = op.id();
  Drive(submit);
}

// The trainer knows this value from now on, as that of its round.
void Run::StandsOn(engine::FragmentId fragment, const engine::StateId& state) {
  std::deque<engine::StateId>& values = trainer_->values[fragment];
  values.push_back(state);
  if (values.size() > kValuesKnownMax) values.pop_front();
}

// Tells the end of an operation once the value that it led to is readable.
void Run::Deliver(engine::FragmentId fragment) {
  if (!trainer_) return;
  auto it = trainer_->ops.find(fragment);
  if (it == trainer_->ops.end() || !it->second.decided || it->second.reported) return;
  LocalOp& op = it->second;
  const engine::StateId& committed = exchange_->state(fragment).committed();
  if (exchange_->rounds(fragment).committing() || committed.round < op.decided->round) return;
  // After a rollback the value here may still be the one that was undone.
  const engine::Lineage lineage = engine_->Snapshot().fragments.at(fragment).committed.lineage;
  if (committed.lineage != lineage) return;
  // What was trained since is carried over from its base, which a fetched value may have replaced.
  const bool based = !HasOuterRule(config_) || endpoint_->Holds(fragment, op.base_round);
  if (op.end == local::State::kExcluded && !based) {
    op.decided->state = engine::OpState::kRebase;
    op.end = local::State::kFailed;
  }
  op.reported = true;
  if (op.decided->state == engine::OpState::kRebase) op.decided->round = committed.round;
  StandsOn(fragment, committed);
  Report(op, op.end, &*op.decided);
  if (op.end == local::State::kFailed) trainer_->ops.erase(it);  // its snapshot is free
}

trainers::OpReport Run::ReportOf(const LocalOp& op, local::State state,
                                 const engine::OpChanged* change) const {
  trainers::OpReport out;
  out.op = op.op;
  out.fragment = op.fragment;
  out.state = state;
  out.in_doubt = op.sending && (state == local::State::kPending || state == local::State::kStalled);
  out.round = change != nullptr ? change->round : op.base_round + 1;
  if (state == local::State::kCommitted || state == local::State::kExcluded) {
    out.round = exchange_->state(op.fragment).committed().round;
  }
  if (state == local::State::kFailed && change != nullptr) {
    out.code =
        change->state == engine::OpState::kRebase ? local::Code::kRebase : local::Code::kNotReady;
  }
  out.participants = op.participants;
  const int64_t started = op.base_round - (op.origin == local::Origin::kOlder ? 1 : 0);
  out.staleness = static_cast<uint32_t>(std::max<int64_t>(1, out.round - started));
  out.raw_bytes = layout_->fragments()[op.fragment].elements * sizeof(float);
  out.wire_bytes = op.wire_bytes;
  out.exchange_us = op.exchange_us;
  out.nonfinite = op.nonfinite;
  if (change != nullptr) out.awaited = Awaited(change->awaited);
  out.wanted = op.wanted;
  return out;
}

void Run::Report(const LocalOp& op, local::State state, const engine::OpChanged* change) {
  const trainers::OpReport report = ReportOf(op, state, change);
  ForEachRank([&](trainers::Session& session, uint32_t number, LocalRank&) {
    if (op.submits.count(number) != 0) session.SendOpState(0, report);
  });
}

void Run::OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) {
  planning_.OnApplied(session.rank(), request.computing_us);
  auto it = trainer_->ops.find(request.fragment);
  if (it != trainer_->ops.end() && it->second.reported) {
    it->second.applied.insert(session.rank());
    if (it->second.applied.size() < trainer_->world) return;
    trainer_->ops.erase(it);
  } else if (trainer_->world > 1) {
    return;  // of several ranks the slowest counts: it is told by its operation
  }
  Drive(engine::TrainerApplied{request.fragment, request.round});
}

// An operation that the engine has cannot be taken back, since its bytes may have left: it is answered
// with what is known. One that waits for other ranks is given up for all of them.
void Run::OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op) {
  for (const auto& [fragment, known] : trainer_->ops) {
    const bool mine = known.id() == engine::OpId{session.operations(), op};
    if (!mine || known.handed_over || known.submits.count(session.rank()) == 0) continue;
    const LocalOp given_up = known;
    trainer_->ops.erase(given_up.fragment);
    Report(given_up, local::State::kAbandoned, nullptr);
    return;
  }
  OnQuery(session, sequence, session.operations(), op);
}

void Run::OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session, uint64_t op) {
  const engine::OpId id{op_session, op};
  for (const auto& [fragment, known] : trainer_->ops) {
    if (known.id() != id || known.submits.count(session.rank()) == 0) continue;
    session.SendOpState(sequence,
                        ReportOf(known, known.reported ? known.end : local::State::kPending,
                                 known.decided ? &*known.decided : nullptr));
    return;
  }
  for (engine::FragmentId f = 0; exchange_ && f < exchange_->size(); ++f) {
    const std::optional<engine::OpChanged> found = engine_->FindOperation(f, id);
    if (!found) continue;
    trainers::OpReport out;
    out.op = op;
    out.fragment = f;
    out.round = found->round;
    out.awaited = Awaited(found->awaited);
    out.in_doubt = found->state == engine::OpState::kPending;
    if (found->state == engine::OpState::kRebase) out.code = local::Code::kRebase;
    if (found->state == engine::OpState::kFailed) out.code = local::Code::kNotReady;
    out.state = found->state == engine::OpState::kCommitted  ? local::State::kCommitted
                : found->state == engine::OpState::kExcluded ? local::State::kExcluded
                : found->state == engine::OpState::kStalled  ? local::State::kStalled
                : found->state == engine::OpState::kPending  ? local::State::kPending
                                                             : local::State::kFailed;
    session.SendOpState(sequence, out);
    return;
  }
  trainers::OpReport unknown;
  unknown.op = op;
  unknown.state = local::State::kUnknown;
  session.SendOpState(sequence, unknown);
}

void Run::OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op) {
  const engine::Status status = engine_->Snapshot();
  int64_t since = loop::Now();
  for (const auto& [fragment, known] : trainer_->ops) {
    if (op == 0 || known.op == op) since = std::min(since, known.submitted_us);
  }
  std::string awaited = Awaited(status.awaited);
  if (awaited.empty()) awaited = "local";
  session.SendAwaiting(sequence, op, static_cast<uint64_t>(loop::Now() - since), awaited,
                       status.reason.empty() ? stall_reason_ : ReasonOf(status));
}

void Run::OnFinish(trainers::Session& session, uint64_t sequence) {
  for (const auto& [fragment, op] : trainer_->ops) {
    if (op.reported) continue;
    trainers::Problem problem =
        Retry(local::Code::kBusy, absl::StrCat("fragment ", fragment, " has an open operation"));
    session.SendError(sequence, problem);
    return;
  }
  // A resumed trainer repeats it: the newest is answered.
  trainer_->ranks.at(session.rank()).finish = sequence;
  if (!std::exchange(trainer_->digesting, true)) MakeDigest();
}

void Run::MakeDigest() {
  auto digest = std::make_shared<schema::Digest>();  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, rounds = CommittedRounds(), digest,
                           hold = HoldValues(), id = trainer_->session, loop = around_.loop,
                           alive = std::weak_ptr<bool>(alive_)] {
    *digest = endpoint->ValuesDigest(rounds);
    loop->Post([this, alive, digest, hold, id] {
      if (alive.expired()) return;
      AllowValues(hold);
      if (!trainer_ || trainer_->session != id) return;
      trainer_->digesting = false;
      ForEachRank([&](trainers::Session& session, uint32_t, LocalRank& rank) {
        if (rank.finish) session.SendFinished(*std::exchange(rank.finish, std::nullopt), *digest);
      });
    });
  });
}

}  // namespace causeway::run
