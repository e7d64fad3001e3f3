// The session's operations as calls: submit, test, wait, abandon, who is awaited.
#include <algorithm>
#include <string>
#include <utility>

#include "client/shim/session.h"

namespace causeway::client {
namespace {

// Submissions are acknowledged in microseconds. Later refusals end the operation instead of the
// call.
constexpr int64_t kAcknowledgeMs = 2'000;
constexpr int64_t kAwaitTextMs = 1'000;

}  // namespace

Status Session::CheckRunning() const {
  if (!formed_ && ready_step_ == Step::kNone) {
    return Status(CW_ARGUMENT, "cw_join, cw_offer and cw_ready come first");
  }
  if (phase_ != Phase::kUp) return Lost();
  if (ready_step_ != Step::kDone) return Status(CW_NOT_READY, "the run has not formed yet");
  return Status();
}

Status Session::CheckFragment(uint32_t fragment) const {
  if (fragment < progress_.size()) return Status();
  return Status(CW_ARGUMENT, "no fragment " + std::to_string(fragment) + ": the run has " +
                                 std::to_string(progress_.size()));
}

Status Session::Submit(const cw_submission& submission, const cw_slice* slices, uint32_t count,
                       uint64_t& op) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (!failure_.ok()) return Status(failure_.failure());
  if (Status status = CheckFragment(submission.fragment); !status.ok()) return status;
  if (Status status = CheckRunning(); !status.ok()) return status;
  Progress& progress = progress_[submission.fragment];
  const std::string name = "fragment " + std::to_string(submission.fragment);
  if (progress.op != 0) {
    return Status(CW_BUSY, name + " has an operation whose result is not applied yet");
  }
  const int64_t base =
      submission.base_round == CW_BASE_CURRENT ? progress.base_round : submission.base_round;
  if (progress.stale || progress.base_round < 0 || base != progress.base_round) {
    Failure failure;
    failure.code = CW_REBASE;
    failure.retryable = true;
    failure.cluster = cluster_;
    failure.round = progress.newest_round;
    failure.text = name + " does not stand on the run's value of round " +
                   std::to_string(progress.newest_round) +
                   ": read it, report it applied, go on from there";
    return Status(std::move(failure));
  }
  if (submission.origin > CW_ORIGIN_OLDER || (submission.origin == CW_ORIGIN_OLDER && base == 0)) {
    return Status(CW_ARGUMENT, name + ": no such origin of the local work");
  }
  const std::string label = submission.label == nullptr ? "" : submission.label;
  if (!label.empty() && !local::IsLabel(label.data(), label.size())) {
    return Status(CW_ARGUMENT, "'" + label +
                                   "' is no label: at most 31 letters, digits and . _ -, " +
                                   "the first a letter or digit");
  }
  std::vector<Part> parts;
  const Coverage coverage = identity_.world == 1 ? Coverage::kWhole : Coverage::kAny;
  Status placed =
      PlaceSlices(schema_, areas_->layout, submission.fragment, slices, count, coverage, parts);
  if (placed.ok()) placed = CheckClaim(submission.fragment, parts);
  if (placed.ok()) placed = CheckCuda(parts);
  if (!placed.ok()) return placed;
  Operation operation;
  operation.id = ++last_op_;
  operation.fragment = submission.fragment;
  operation.base_round = base;
  operation.weight = submission.weight;
  operation.origin = submission.origin;
  operation.label = label;
  operation.sent = areas_;
  operation.base = progress.base;
  operation.result.fragment = submission.fragment;
  operation.result.state = CW_STATE_PENDING;
  operation.result.round = base + 1;
  std::shared_ptr<cuda::Mark> mark;
  if (Status status = CopyFromDevice(parts, operation, mark); !status.ok()) return status;
  const uint64_t id = operation.id;
  Operation& kept = operations_.emplace(id, std::move(operation)).first->second;
  progress.op = id;
  if (mark) {
    op = id;
    announcer_->Add(id, std::move(mark));
    return Status();
  }
  SendSubmit(kept);
  if (submission.asynchronous != 0) {
    op = id;
    return Status();
  }
  // From here on the operation exists; whatever ends this short wait leaves it pending.
  const Status answered = Await(lock, Deadline::In(kAcknowledgeMs), [this, id] {
    const Operation* found = Find(id);
    return found == nullptr || found->acknowledged || found->ended();
  });
  if (!failure_.ok()) return Status(failure_.failure());
  if (!answered.ok() && answered.code() == CW_GATEWAY_LOST)
    lost_told_ = false;  // for the wait to tell
  Operation* found = Find(id);
  if (found == nullptr) return NoSuchOperation(id);
  if (found->result.state == CW_STATE_FAILED) {
    Status refused(found->failure.failure());
    Forget(id);
    return refused;
  }
  op = id;
  return Status();
}

Operation* Session::Find(uint64_t op) {
  auto found = operations_.find(op);
  return found == operations_.end() ? nullptr : &found->second;
}

Status Session::NoSuchOperation(uint64_t op) const {
  return Status(CW_ARGUMENT,
                "no operation " + std::to_string(op) + ": it was applied, or never submitted");
}

void Session::Forget(uint64_t op) {
  auto found = operations_.find(op);
  if (found == operations_.end()) return;
  Progress& progress = progress_[found->second.fragment];
  if (progress.op == op) progress.op = 0;
  operations_.erase(found);
  RefreshUnread();
}

void Session::RefreshUnread() {
  waiting_.SetUnread(std::any_of(operations_.begin(), operations_.end(), [](const auto& entry) {
    return entry.second.ended() && !entry.second.told;
  }));
}

Status Session::Report(Operation& operation, cw_result& result) {
  const uint32_t size = result.struct_bytes;
  result = operation.result;
  result.struct_bytes = size;
  if (!operation.ended()) return Status();
  operation.told = true;
  RefreshUnread();
  if (operation.has_result()) return Status();
  Status status =
      operation.result.state == CW_STATE_FAILED ? Status(operation.failure.failure()) : Status();
  Forget(operation.id);
  return status;
}

Status Session::Test(uint64_t op, cw_result& result) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (!failure_.ok()) return Status(failure_.failure());
  Operation* operation = Find(op);
  if (operation == nullptr) return NoSuchOperation(op);
  return Report(*operation, result);
}

Status Session::Wait(uint64_t op, int64_t timeout_ms, cw_result& result) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Status waited = Await(lock, DeadlineOf(timeout_ms), [this, op] {
    const Operation* operation = Find(op);
    return operation == nullptr || operation->ended();
  });
  Operation* operation = Find(op);
  if (operation == nullptr) return waited.ok() ? NoSuchOperation(op) : std::move(waited);
  if (waited.ok()) return Report(*operation, result);
  const uint32_t size = result.struct_bytes;
  result = operation->result;
  result.struct_bytes = size;
  if (waited.code() != CW_TIMEOUT) return waited;
  Failure failure;
  const bool stalled = operation->result.state == CW_STATE_STALLED;
  failure.code = stalled ? CW_STALLED : CW_TIMEOUT;
  failure.retryable = true;
  failure.round = operation->result.round;
  failure.cluster = operation->result.awaited;
  failure.text = "round " + std::to_string(operation->result.round) + " of fragment " +
                 std::to_string(operation->fragment) +
                 (stalled ? " is stalled: no quorum of clusters" : " is still pending");
  if (operation->result.awaited[0] != 0)
    failure.text += std::string("; waiting for ") + operation->result.awaited;
  return Status(std::move(failure));
}

Status Session::Abandon(uint64_t op) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  Operation* operation = Find(op);
  if (operation == nullptr) return NoSuchOperation(op);
  if (operation->ended()) return Status();
  if (operation->copying) return Status(CW_BUSY, "its snapshot is still being copied off the GPU");
  if (!running()) return Lost();
  local::Abandon message{};
  message.op = operation->wire_op;
  return Send(message, local::Type::kAbandon) ? Status() : Lost();
}

Status Session::AwaitText(uint64_t op, std::string& text) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  uint64_t wire_op = 0;
  if (op != 0) {
    const Operation* operation = Find(op);
    if (operation == nullptr) return NoSuchOperation(op);
    wire_op = operation->wire_op;
  }
  if (phase_ != Phase::kUp) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - lost_at_).count();
    text = "the gateway at " + identity_.socket_path + " (no connection for " +
           std::to_string(seconds) + " s)";
    return Status();
  }
  local::Await message{};
  message.op = wire_op;
  await_answered_ = false;
  if (!Send(message, local::Type::kAwait)) return Lost();
  const uint64_t mine = await_sequence_ = sequence_;
  Status status = Await(lock, Deadline::In(kAwaitTextMs),
                        [this, mine] { return await_answered_ || await_sequence_ != mine; });
  if (status.code() == CW_TIMEOUT) {
    text = "the gateway at " + identity_.socket_path + " (it does not answer)";
    return Status();
  }
  if (status.ok()) text = await_text_;
  return status;
}

}  // namespace causeway::client
