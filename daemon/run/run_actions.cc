// What the engine answers, done: one Do for each of its actions.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr int64_t kPersistRetryUs = 1'000'000;

}  // namespace

void Run::Do(const engine::Send& action) { network_.Send(action.to, action.envelope); }

// On the loop's thread: nothing of this run may go on before it is on disk, and epochs change
// rarely.
void Run::Do(const engine::Persist& action) {
  around_.loop->Cancel(persist_timer_);
  persist_timer_ = 0;
  const absl::Status written = file_.Write(action.durable);
  if (written.ok()) {
    Drive(engine::Persisted{action.token});
    return;
  }
  around_.log->Error(event::kRunRecordFailed, {{"run", name()}},
                     absl::StrCat(written.message(), "; no membership changes until it is written"));
  persist_timer_ = around_.loop->After(kPersistRetryUs, [this, action] {
    persist_timer_ = 0;
    Do(action);
  });
}

void Run::Do(const engine::StartContribution& action) {
  if (trainer_) {
    auto op = trainer_->ops.find(action.fragment);
    if (op != trainer_->ops.end() && op->second.id() == action.op) {
      op->second.sending = true;
      endpoint_->SnapshotIn(action.fragment, op->second.device);
    }
  }
  exchange_->rounds(action.fragment).StartContribution(action);
}

void Run::Do(const engine::ResendContribution& action) {
  exchange_->rounds(action.fragment).Resend(action);
}

void Run::Do(const engine::Reduce& action) { exchange_->rounds(action.fragment).Reduce(action); }

void Run::Do(const engine::Commit& action) {
  if (trainer_) {
    auto op = trainer_->ops.find(action.record.fragment);
    if (op != trainer_->ops.end() && op->second.id() == action.own_op) {
      op->second.wire_bytes =
          exchange_->rounds(action.record.fragment).encoded_bytes(action.own_op);
      around_.metrics->payload_bytes.With({name(), "encoded"})
          .Add(static_cast<double>(op->second.wire_bytes));
    }
  }
  exchange_->rounds(action.record.fragment).Commit(action);
}

void Run::Do(const engine::DropAttempts& action) {
  if (exchange_) exchange_->rounds(action.fragment).DropAttempts(action);
}

void Run::Do(const engine::ReleaseRetained& action) {
  if (!exchange_) return;
  exchange_->rounds(action.fragment).Release(action.op);
  endpoint_->SnapshotIn(action.fragment, nullptr);
}

void Run::Do(const engine::FetchState& action) {
  fetches_[action.fragment] = action;
  StartFetches();
}

// A gateway that has restarted knows nothing of the tensors until its trainer joins. A state that
// has passed by then is refused by its donor, and the engine asks for a newer one.
void Run::StartFetches() {
  if (!exchange_ || !FetchesFit()) return;
  for (const auto& [fragment, action] : std::exchange(fetches_, {})) {
    if (fragment < exchange_->size()) {
      Fetch(action);
    } else {
      fetches_[fragment] = action;  // the run has grown, and the local trainer has not come with that
    }
  }
}

// The local trainer's tensors are the run's, as far as this gateway knows: else what is fetched
// would not fit.
bool Run::FetchesFit() const {
  if (refused_) return false;
  const std::optional<engine::Record> record = engine_->Snapshot().record;
  return !record || schema_->StageOf(record->schema);
}

void Run::Fetch(const engine::FetchState& action) {
  around_.log->Info(event::kStateFetched,
                    {{"run", name()},
                     {"fragment", action.fragment},
                     {"round", action.state.round},
                     {"donors", Awaited(action.donors)}},
                    "fetching the fragment's outer state");
  exchange_->rounds(action.fragment).Expect(action.state.round);
  exchange_->state(action.fragment).Fetch(action);
}

void Run::Do(const engine::AdoptState& action) {
  exchange_->state(action.fragment).Adopt(action);
  // Before its first round a gateway has lost nothing in encoding.
  const bool encoded = rounds_committed_ > 0 || checkpoints_.residuals_restored();
  if (encoded && !action.forward && !action.from_trainer && CodecOf(config_.codec).error_feedback) {
    residual_lost_ = true;
  }
}

// The value that the new lineage begins with is here, or a fetch brings it. Trainers that stand on
// what was undone are told to take the run's value (REBASE).
void Run::Do(const engine::RolledBack& action) {
  around_.log->Warning(event::kRunRolledBack,
                       {{"run", name()},
                        {"fragment", action.fragment},
                        {"from", engine::ToString(action.from)},
                        {"to", engine::ToString(action.to)}},
                       "the members agreed to go on from an earlier round");
  residual_lost_ = residual_lost_ || CodecOf(config_.codec).error_feedback;
  planning_.OnRolledBack(action.to.round);
  if (exchange_) exchange_->rounds(action.fragment).Expect(action.to.round);
  if (action.holds && exchange_) exchange_->state(action.fragment).Relabel(action.to);
}

void Run::Do(const engine::OpChanged& action) {
  if (!trainer_) return;
  auto it = trainer_->ops.find(action.fragment);
  if (it == trainer_->ops.end() || it->second.id() != action.op || it->second.reported) return;
  LocalOp& op = it->second;
  op.wanted = action.wanted;
  switch (action.state) {
    case engine::OpState::kPending:
      Report(op, local::State::kPending, &action);
      return;
    case engine::OpState::kStalled:
      Report(op, local::State::kStalled, &action);
      return;
    case engine::OpState::kCommitted:
    case engine::OpState::kExcluded:
      op.decided = action;
      op.end = action.state == engine::OpState::kCommitted ? local::State::kCommitted
                                                           : local::State::kExcluded;
      Deliver(action.fragment);
      return;
    case engine::OpState::kRebase:
      op.decided = action;
      op.end = local::State::kFailed;
      Deliver(action.fragment);
      return;
    case engine::OpState::kFailed:
      op.end = local::State::kFailed;
      Report(op, local::State::kFailed, &action);
      trainer_->ops.erase(it);  // its snapshot is free
      return;
  }
}

void Run::Do(const engine::EpochInstalled& action) {
  stall_reason_.clear();
  if (exchange_) exchange_->OnEpoch(action.record);
  around_.metrics->epoch.With({name()}).Set(static_cast<double>(action.record.epoch.counter));
  around_.log->Info(event::kEpochInstalled,
                    {{"run", name()},
                     {"epoch", engine::ToString(action.record.epoch)},
                     {"leader", roster_.Name(action.record.leader)},
                     {"members", Awaited(action.record.members)}},
                    "membership in force");
}

void Run::Do(const engine::RunFormed& action) {
  around_.log->Info(event::kRunFormed, {{"run", name()}, {"seed", roster_.Name(action.seed)}},
                    "all voters are new: the seed cluster's parameters are the run's");
}

void Run::Do(const engine::Fenced& action) {
  stall_reason_ = action.reason;
  around_.log->Warning(event::kRunStalled, {{"run", name()}, {"reason", action.reason}},
                       "no part in rounds until the next epoch");
}

void Run::Do(const engine::RollbackNeeded& action) {
  if (action.restorable) {
    stall_reason_ =
        absl::StrCat("whoever knew the newest rounds has restarted without them; ",
                     Awaited(action.missing), " may still hold them: bring it back, or `",
                     "causeway run rollback ", name(), " --approve` to go on without");
  } else {
    const std::string away =
        action.missing.Empty() ? "" : absl::StrCat("; waiting for ", Awaited(action.missing));
    stall_reason_ = absl::StrCat("no gateway that is here holds the run's values any more", away,
                                 "; `causeway run forget ", name(),
                                 "` on every gateway begins anew from the seed's trainer");
  }
  around_.log->Error(event::kRunStalled, {{"run", name()}, {"missing", Awaited(action.missing)}},
                     stall_reason_);
}

std::string Run::ForeignText(engine::ClusterSet clusters) const {
  return absl::StrCat(Awaited(clusters), ": not heard, since the state of run '", name(),
                      "' there is of another founding than the one here (a disk was put back, or ",
                      "the run was forgotten elsewhere); `causeway run forget ", name(),
                      "` on the gateway whose state is the older one");
}

void Run::Do(const engine::ForeignRun& action) {
  around_.log->Error(event::kRunForeign, {{"run", name()}, {"peer", roster_.Name(action.cluster)}},
                     ForeignText({action.cluster}));
}

void Run::Do(const engine::Note& action) {
  if (action.warning) {
    around_.log->Warning("run.engine", {{"run", name()}}, action.text);
  } else {
    around_.log->Debug("run.engine", {{"run", name()}}, action.text);
  }
}

}  // namespace causeway::run
