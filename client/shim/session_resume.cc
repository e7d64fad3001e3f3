// Connecting, and picking the session up again after the gateway went away. With the lock held.
//
// A gateway that kept its memory gives the old token back: requests without an answer are repeated
// and each operation is asked about. A gateway that was restarted gets a new Join and Offer; then
// each fragment's value is compared with the base that the trainer stands on, and only what the
// gateway never saw, on an unchanged base, is submitted again. Nothing is submitted twice on a
// guess.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "client/shim/merge.h"
#include "client/shim/session.h"

namespace causeway::client {
namespace {

constexpr int64_t kAttemptPauseMsMin = 50;
constexpr int64_t kAttemptPauseMsMax = 1000;

}  // namespace

void Session::Attempt() {
  if (Status status = connection_.Connect(identity_.socket_path); !status.ok()) {
    attempt_failure_ = std::move(status);
    return ScheduleAttempt();
  }
  if (Status status = waiting_.Watch(connection_.descriptor()); !status.ok()) {
    attempt_failure_ = std::move(status);
    connection_.Close();
    return ScheduleAttempt();
  }
  phase_ = Phase::kGreeting;
  version_ = 0;
  local::Hello hello{};
  hello.version_min = local::kVersionMin;
  hello.version_max = local::kVersionMax;
  hello.rank = identity_.rank;
  hello.world = identity_.world;
  std::copy(token_.begin(), token_.end(), hello.token);
  identity_.run.copy(hello.run, sizeof(hello.run) - 1);
  if (Send(hello, local::Type::kHello)) hello_sequence_ = sequence_;
}

void Session::ScheduleAttempt() {
  attempt_pause_ms_ = std::clamp(attempt_pause_ms_ * 2, kAttemptPauseMsMin, kAttemptPauseMsMax);
  next_attempt_ = Clock::now() + std::chrono::milliseconds(attempt_pause_ms_);
  waiting_.WakeAt(next_attempt_);
}

void Session::LoseConnection() {
  connection_.Close();
  if (phase_ == Phase::kUp) {
    lost_told_ = false;
    lost_at_ = Clock::now();
    attempt_failure_ = Status();
  } else if (attempt_failure_.ok()) {
    attempt_failure_ = Status(CW_GATEWAY_LOST, "the gateway at " + identity_.socket_path +
                                                   " closed the connection before its greeting");
  }
  phase_ = Phase::kDown;
  waiting_.WakeOthers();
  ScheduleAttempt();
}

void Session::Resume(bool resumed) {
  if (resumed) {
    for (Progress& progress : progress_) progress.told_round = -1;
    if (join_step_ == Step::kSent && !SendJoin()) return;
    if (share_step_ == Step::kSent && !SendShare()) return;
    if (join_step_ == Step::kDone && ready_step_ == Step::kSent && !SendOffer()) return;
    if (!running()) return;
    QueryOperations();
    TellApplied();
    RepeatFinish();
    return;
  }
  if (join_step_ == Step::kNone) return;
  join_step_ = Step::kSent;
  // A new session is not ready: until it is, nothing that a ready one may say is sent.
  if (ready_step_ == Step::kDone) ready_step_ = Step::kSent;
  SendJoin();
}

void Session::RepeatFinish() {
  if (finish_step_ != Step::kSent || phase_ != Phase::kUp) return;
  local::Finish message{};
  if (Send(message, local::Type::kFinish)) finish_sequence_ = sequence_;
}

local::Header Session::Head(local::Type type, uint32_t size) {
  local::Header header{};
  header.magic = local::kMagic;
  header.version = version_ == 0 ? local::kVersionMin : version_;
  header.type = static_cast<uint16_t>(type);
  header.size = size;
  header.sequence = ++sequence_;
  return header;
}

bool Session::SendJoin() {
  Descriptor memfd;
  if (Status status = schema_.Write(memfd); !status.ok()) {
    Die(status.failure());
    return false;
  }
  local::Join message{};
  message.tensors = static_cast<uint32_t>(schema_.tensors().size());
  // Once formed, the run's values are the law: what this trainer holds beyond its base is local
  // work.
  message.init = formed_ ? static_cast<uint8_t>(local::Init::kRun) : join_options_.init;
  message.outer = join_options_.outer;
  message.local_steps = join_options_.local_steps;
  if (!Send(message, local::Type::kJoin, memfd.get())) return false;
  join_sequence_ = sequence_;
  return true;
}

bool Session::SendOffer() {
  local::Offer message{};
  Descriptor memfd;
  if (identity_.world > 1) {
    if (Status status = WriteRanges(claim_, memfd); !status.ok()) {
      Die(status.failure());
      return false;
    }
    message.slices = static_cast<uint32_t>(claim_.size());
  }
  if (!Send(message, local::Type::kOffer, memfd.get())) return false;
  offer_sequence_ = sequence_;
  return true;
}

bool Session::SendSubmit(Operation& operation) {
  local::Submit message{};
  message.op = identity_.world == 1 ? ++last_wire_op_
                                    : local::OpNumber(operation.fragment, operation.base_round);
  message.fragment = operation.fragment;
  message.origin = operation.origin;
  message.memory =
      static_cast<uint8_t>(operation.on_device ? local::Memory::kDevice : local::Memory::kHost);
  message.base_round = operation.base_round;
  message.weight = operation.weight;
  operation.label.copy(message.label, local::kLabelMax);
  operation.wire_op = message.op;
  operation.wire_session = session_;
  operation.acknowledged = false;
  operation.query_sequence = 0;
  operation.submit_sequence = sequence_ + 1;
  return Send(message, local::Type::kSubmit);
}

void Session::FillOffer(const Areas& old) {
  if (terms_.outer == 0) return;
  for (uint32_t fragment = 0; fragment < progress_.size(); ++fragment) {
    const Progress& progress = progress_[fragment];
    const uint8_t dtype = areas_->layout.fragments()[fragment].dtype;
    for (const Range& range : OwnRanges(fragment)) {
      const uint64_t offset = range.first * BytesOf(dtype);
      uint8_t* const to = areas_->SnapshotOf(fragment) + offset;
      if (progress.base_round >= 0) {
        Cast(progress.base->ValueOf(fragment, progress.base_round) + range.first, range.count,
             dtype, to);
      } else {
        std::memcpy(to, old.SnapshotOf(fragment) + offset, range.count * BytesOf(dtype));
      }
    }
  }
}

void Session::Reconcile(const local::Ready& message) {
  for (uint32_t fragment = 0; fragment < progress_.size(); ++fragment) {
    ReconcileFragment(fragment, message.round[fragment]);
  }
  QueryOperations();
  TellApplied();
  RepeatFinish();
}

void Session::ReconcileFragment(uint32_t fragment, int64_t round) {
  Progress& progress = progress_[fragment];
  progress.newest_round = round;
  progress.newest = areas_;
  progress.told_round = -1;
  if (terms_.outer == 0) {
    // An averaged gradient does not depend on earlier ones.
    progress.base_round = round;
    progress.base = areas_;
    progress.stale = false;
  } else if (progress.base_round >= 0) {
    const uint64_t bytes = areas_->layout.fragments()[fragment].elements * sizeof(float);
    progress.stale =
        round != progress.base_round || std::memcmp(progress.base->ValueOf(fragment, round),
                                                    areas_->ValueOf(fragment, round), bytes) != 0;
    if (!progress.stale && progress.op == 0) progress.base = areas_;
  }
  Operation* operation = Find(progress.op);
  if (operation == nullptr || !operation->has_result()) return;
  if (round >= operation->result.round) {
    operation->result.round = round;  // contains the result
    operation->fresh = areas_;
    return;
  }
  Failure failure;
  failure.code = CW_REBASE;
  failure.retryable = true;
  failure.round = round;
  failure.text = "the run went back to round " + std::to_string(round) + " of fragment " +
                 std::to_string(fragment);
  operation->told = false;
  EndOperation(*operation, std::move(failure));
}

void Session::QueryOperations() {
  for (auto& [id, operation] : operations_) {
    if (operation.ended() || operation.copying || phase_ != Phase::kUp) continue;
    if (operation.wire_op == 0) {  // its copy ended while there was no connection
      OnUnknown(operation);
      continue;
    }
    local::Query message{};
    message.session = operation.wire_session;
    message.op = operation.wire_op;
    operation.query_sequence = sequence_ + 1;
    if (!Send(message, local::Type::kQuery)) return;
  }
}

void Session::OnUnknown(Operation& operation) {
  Progress& progress = progress_[operation.fragment];
  if (!progress.stale) return Resubmit(operation);
  Failure failure;
  failure.code = CW_REBASE;
  failure.retryable = true;
  failure.cluster = cluster_;
  failure.round = progress.newest_round;
  failure.text = "the gateway lost this operation and its run stands on round " +
                 std::to_string(progress.newest_round) + " now; the local steps since round " +
                 std::to_string(operation.base_round) + " are lost";
  EndOperation(operation, std::move(failure));
}

void Session::Resubmit(Operation& operation) {
  const uint32_t fragment = operation.fragment;
  Progress& progress = progress_[fragment];
  if (operation.on_device) {
    operation.sent = areas_;
    if (!shared_) {
      if (Status status = FetchSnapshot(operation); !status.ok()) {
        return EndOperation(operation, Failure(status.failure()));
      }
    }
  } else if (operation.sent != areas_) {
    const uint64_t size = BytesOf(areas_->layout.fragments()[fragment].dtype);
    for (const Range& range : OwnRanges(fragment)) {
      std::memcpy(areas_->SnapshotOf(fragment) + range.first * size,
                  operation.sent->SnapshotOf(fragment) + range.first * size, range.count * size);
    }
    operation.sent = areas_;
  }
  operation.base_round = progress.base_round;
  operation.base = progress.base = areas_;
  SendSubmit(operation);
}

// Time outside of waits since the last call for this fragment, in microseconds.
uint32_t Session::TakeComputing(Progress& progress) const {
  const Clock::time_point now = Clock::now();
  const Clock::duration waited = waited_ - std::exchange(progress.waited_then, waited_);
  const Clock::time_point since = std::exchange(progress.computing_since, now);
  if (since == Clock::time_point{}) return 0;
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(now - since - waited).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX));
}

void Session::TellApplied() {
  for (uint32_t fragment = 0; fragment < progress_.size(); ++fragment) {
    Progress& progress = progress_[fragment];
    if (progress.base_round < 0 || progress.stale || progress.told_round == progress.base_round)
      continue;
    if (progress.op != 0) continue;  // its submission named the base; Applied would end it
    local::Applied message{};
    message.fragment = fragment;
    message.round = progress.base_round;
    message.computing_us = TakeComputing(progress);
    if (!Send(message, local::Type::kApplied)) return;
    progress.told_round = progress.base_round;
  }
}

}  // namespace causeway::client
