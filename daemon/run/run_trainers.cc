// A trainer's operations: submitted, followed, answered.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

trainers::Problem Retry(local::Code code, std::string text) {
  trainers::Problem out;
  out.code = code;
  out.retryable = true;
  out.text = std::move(text);
  return out;
}

}  // namespace

trainers::Session* Run::session() const {
  return trainer_ ? around_.find_session(trainer_->session) : nullptr;
}

void Run::OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) {
  const auto refuse = [&](trainers::Problem problem) {
    problem.round = request.base_round + 1;
    session.SendError(request.sequence, problem);
  };
  if (draining_) {
    return refuse(
        Retry(local::Code::kDraining, "this gateway is shutting down; submit again later"));
  }
  if (!trainer_->ready) {
    return refuse(Retry(local::Code::kNotReady, "the run is not ready; wait for Ready"));
  }
  if (trainer_->ops.count(request.fragment) != 0) {
    return refuse(Retry(local::Code::kBusy,
                        absl::StrCat("fragment ", request.fragment,
                                     " has an operation whose result is not applied yet")));
  }
  const uint64_t elements = layout_->fragments()[request.fragment].elements;
  if (request.first_element != 0 || request.element_count != elements) {
    trainers::Problem problem;
    problem.code = local::Code::kProtocol;
    problem.text =
        absl::StrCat("one trainer process submits the whole fragment: elements 0 to ", elements,
                     ", not ", request.element_count, " from ", request.first_element);
    return refuse(problem);
  }
  LocalOp op;
  op.session = session.id();
  op.op = request.op;
  op.fragment = request.fragment;
  op.base_round = request.base_round;
  op.weight = request.weight;
  op.submitted_us = loop::Now();
  trainer_->ops.emplace(op.fragment, op);
  around_.metrics->payload_bytes.With({name(), "submitted"})
      .Add(static_cast<double>(elements * sizeof(float)));
  if (!HasOuterRule(config_)) {  // a NaN gradient is the result's flag, one verdict for all
    HandOver(op, request.sequence);
    return;
  }
  auto nonfinite = std::make_shared<std::optional<std::string>>();  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, op, nonfinite, loop = around_.loop,
                           sequence = request.sequence, alive = std::weak_ptr<bool>(alive_)] {
    *nonfinite = endpoint->NonFiniteInSnapshot(op.fragment);
    loop->Post([this, alive, op, nonfinite, sequence] {
      if (alive.expired() || !trainer_ || trainer_->session != op.session) return;
      if (!*nonfinite) {
        HandOver(op, sequence);
        return;
      }
      trainer_->ops.erase(op.fragment);
      trainers::Problem problem;
      problem.code = local::Code::kNonfinite;
      problem.tensor = **nonfinite;
      problem.round = op.base_round + 1;
      problem.text =
          absl::StrCat("tensor '", **nonfinite, "' holds NaN or Inf; nothing of it was sent");
      around_.metrics->screened_updates.With({name(), "nonfinite"}).Add(1);
      if (trainers::Session* trainer = this->session()) trainer->SendError(sequence, problem);
    });
  });
}

void Run::HandOver(const LocalOp& op, uint64_t sequence) {
  trainer_->ops.at(op.fragment).handed_over = true;
  if (trainers::Session* trainer = session()) {
    trainer->SendSubmitted(sequence, op.op, op.base_round + 1);
  }
  engine::Submit submit;
  submit.fragment = op.fragment;
  submit.base.lineage = exchange_->state(op.fragment).committed().lineage;
  submit.base.round = op.base_round;
  submit.weight = op.weight;
  submit.op = op.id();
  Drive(submit);
}

// Tells the end of an operation once the value that it led to is readable.
void Run::Deliver(engine::FragmentId fragment) {
  if (!trainer_) return;
  auto it = trainer_->ops.find(fragment);
  if (it == trainer_->ops.end() || !it->second.decided || it->second.reported) return;
  const bool readable = !exchange_->rounds(fragment).committing() &&
                        exchange_->state(fragment).committed().round >= it->second.decided->round;
  if (!readable) return;
  it->second.reported = true;
  Report(it->second, it->second.end, &*it->second.decided, 0);
}

void Run::Report(const LocalOp& op, local::State state, const engine::OpChanged* change,
                 uint64_t answers) {
  trainers::Session* trainer = session();
  if (trainer == nullptr) return;
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
  out.staleness = static_cast<uint32_t>(std::max<int64_t>(1, out.round - op.base_round));
  out.raw_bytes = layout_->fragments()[op.fragment].elements * sizeof(float);
  out.wire_bytes = op.wire_bytes;
  out.exchange_us = op.exchange_us;
  out.nonfinite = op.nonfinite;
  if (change != nullptr) out.awaited = Awaited(change->awaited);
  trainer->SendOpState(answers, out);
}

void Run::OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) {
  planning_.OnApplied(session.rank(), request.computing_us);
  auto it = trainer_->ops.find(request.fragment);
  if (it != trainer_->ops.end() && it->second.reported) trainer_->ops.erase(it);
}

// An operation whose bytes may have left cannot be taken back: it is answered with what is known.
void Run::OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op) {
  OnQuery(session, sequence, session.id(), op);
}

void Run::OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session, uint64_t op) {
  const engine::OpId id{op_session, op};
  for (const auto& [fragment, known] : trainer_->ops) {
    if (known.id() != id) continue;
    Report(known, known.reported ? known.end : local::State::kPending,
           known.decided ? &*known.decided : nullptr, sequence);
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
                       status.reason.empty() ? stall_reason_ : status.reason);
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
  if (std::exchange(trainer_->finish, sequence)) return;
  auto digest = std::make_shared<schema::Digest>();  // shared by the two halves
  around_.workers->Submit([this, endpoint = endpoint_, rounds = CommittedRounds(), digest,
                           hold = HoldValues(), id = session.id(), loop = around_.loop,
                           alive = std::weak_ptr<bool>(alive_)] {
    *digest = endpoint->ValuesDigest(rounds);
    loop->Post([this, alive, digest, hold, id] {
      if (alive.expired()) return;
      value_holds_.erase(hold);
      if (!trainer_ || trainer_->session != id) return;
      const uint64_t answers = *std::exchange(trainer_->finish, std::nullopt);
      if (trainers::Session* trainer = this->session()) trainer->SendFinished(answers, *digest);
    });
  });
}

}  // namespace causeway::run
