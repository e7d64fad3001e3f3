// What the gateway's messages do to the session. Everything here runs with the lock held.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "client/shim/session.h"

namespace causeway::client {
namespace {

// Read in one go; a gateway that sends faster than that for ever cannot keep a caller here.
constexpr int kMessagesPerPumpMax = 1024;

// A gateway's code as the trainer sees it; what this version does not know, or no gateway may say,
// is INTERNAL.
int CodeOf(uint16_t code) {
  const bool known = std::strcmp(CodeName(code), "UNKNOWN") != 0;
  if (known && code != CW_OK && code < CW_INTERRUPTED) return code;
  return CW_INTERNAL;
}

Failure FailureOf(const local::Error& message) {
  Failure failure;
  failure.code = CodeOf(message.code);
  failure.retryable = message.retryable != 0;
  failure.fatal = message.fatal != 0;
  failure.rank = message.rank == UINT32_MAX ? -1 : static_cast<int64_t>(message.rank);
  failure.round = message.round;
  failure.cluster = message.cluster;
  failure.tensor = message.tensor;
  failure.text = message.text;
  return failure;
}

uint8_t StateOf(uint8_t state) { return state; }  // cw_state has the protocol's numbers
static_assert(CW_STATE_PENDING == static_cast<int>(local::State::kPending));
static_assert(CW_STATE_COMMITTED == static_cast<int>(local::State::kCommitted));
static_assert(CW_STATE_EXCLUDED == static_cast<int>(local::State::kExcluded));
static_assert(CW_STATE_STALLED == static_cast<int>(local::State::kStalled));
static_assert(CW_STATE_FAILED == static_cast<int>(local::State::kFailed));
static_assert(CW_STATE_ABANDONED == static_cast<int>(local::State::kAbandoned));
static_assert(CW_DRAINING == static_cast<int>(local::Code::kDraining));
static_assert(CW_INTERNAL == static_cast<int>(local::Code::kInternal));

}  // namespace

void Session::Pump() {
  if (!failure_.ok()) return;
  if (phase_ == Phase::kDown && Clock::now() >= next_attempt_) Attempt();
  Datagram datagram;
  int read = 0;
  for (; read < kMessagesPerPumpMax && connection_.open(); ++read) {
    const Connection::Receipt receipt = connection_.Receive(datagram);
    if (receipt == Connection::Receipt::kNothing) break;
    if (receipt == Connection::Receipt::kClosed) {
      LoseConnection();
      break;
    }
    if (receipt == Connection::Receipt::kMalformed) {
      Misbehaved("a message that is too long, or descriptors that did not arrive");
      break;
    }
    Receive(datagram);
  }
  if (read > 0) {
    RefreshUnread();
    waiting_.WakeOthers();
  }
}

void Session::Receive(Datagram& datagram) {
  if (Status status = datagram.Check(version_); !status.ok()) {
    Die(status.failure());
    return;
  }
  const bool greeting = phase_ == Phase::kGreeting;
  const local::Type type = datagram.type();
  if (greeting != (type == local::Type::kWelcome) && type != local::Type::kError) {
    return Misbehaved("Welcome out of turn");
  }
  switch (type) {
    case local::Type::kWelcome:
      return OnWelcome(datagram.As<local::Welcome>());
    case local::Type::kJoined:
      return OnJoined(datagram.As<local::Joined>(), datagram.descriptors);
    case local::Type::kShared:
      return OnShared(datagram.As<local::Shared>());
    case local::Type::kReady:
      return OnReady(datagram.As<local::Ready>());
    case local::Type::kSubmitted:
      return OnSubmitted(datagram.As<local::Submitted>());
    case local::Type::kOpState:
      return OnOpState(datagram.As<local::OpState>());
    case local::Type::kAwaiting:
      return OnAwaiting(datagram.As<local::Awaiting>());
    case local::Type::kFinished:
      return OnFinished(datagram.As<local::Finished>());
    default:
      return OnError(datagram.As<local::Error>());
  }
}

void Session::OnWelcome(const local::Welcome& message) {
  if (message.header.answers != hello_sequence_) return Misbehaved("Welcome that answers no Hello");
  version_ = message.header.version;
  phase_ = Phase::kUp;
  attempt_pause_ms_ = 0;
  attempt_failure_ = Status();
  const bool resumed = opened_ && std::equal(token_.begin(), token_.end(), message.token);
  std::copy(std::begin(message.token), std::end(message.token), token_.begin());
  session_ = message.session;
  cluster_ = message.cluster;
  if (opened_) {
    Resume(resumed);
  } else {
    opened_ = true;
  }
}

void Session::OnJoined(const local::Joined& message, const std::vector<Descriptor>& descriptors) {
  if (join_step_ != Step::kSent || message.header.answers != join_sequence_) return;
  std::shared_ptr<Areas> areas;
  if (Status status = MapAreas(message, descriptors, areas); !status.ok()) {
    return Die(status.failure());
  }
  const std::shared_ptr<Areas> old = std::exchange(areas_, areas);
  join_step_ = Step::kDone;
  if (!old) {
    terms_ = message;
    progress_.resize(message.fragments);
    return;
  }
  if (!areas->layout.SameShape(old->layout) || message.outer != terms_.outer) {
    return Die(Failure{.code = CW_SCHEMA,
                       .text =
                           "the gateway came back with another layout: its configuration changed; "
                           "start the trainer again"});
  }
  terms_ = message;
  if (cuda_) areas_->pin = cuda_->Pin(areas_->snapshot.data(), areas_->snapshot.size());
  if (share_wanted_ && !SendShare()) return;
  if (ready_step_ == Step::kNone && !formed_) return;
  FillOffer(*old);
  ready_step_ = Step::kSent;
  SendOffer();
}

Status Session::MapAreas(const local::Joined& message, const std::vector<Descriptor>& descriptors,
                         std::shared_ptr<Areas>& areas) const {
  // What the schema can need at most, so that a forged size maps nothing absurd.
  constexpr uint64_t kAreaBytesMax = uint64_t{1} << 46;
  if (message.snapshot_bytes > kAreaBytesMax || message.values_bytes > kAreaBytesMax ||
      message.layout_bytes < LayoutBytes(message.fragments, message.tensors) ||
      message.layout_bytes > LayoutBytes(local::kFragmentsMax, local::kTensorsMax)) {
    return Status(CW_PROTOCOL, "the gateway announced memory of an impossible size");
  }
  areas = std::make_shared<Areas>();
  Mapping tables;
  Status status = Mapping::Map(descriptors[0], message.layout_bytes, false, "layout", tables);
  if (status.ok()) {
    status =
        Mapping::Map(descriptors[1], message.snapshot_bytes, true, "snapshot", areas->snapshot);
  }
  if (status.ok()) {
    status = Mapping::Map(descriptors[2], message.values_bytes, false, "values", areas->values);
  }
  if (!status.ok()) return status;
  // Copied before it is checked: the memory is shared.
  const std::vector<uint8_t> copy(tables.data(), tables.data() + tables.size());
  return Layout::Parse(copy.data(), message, schema_, areas->layout);
}

void Session::OnReady(const local::Ready& message) {
  if (ready_step_ != Step::kSent && !formed_) return Misbehaved("Ready before an offer");
  if (message.fragments != terms_.fragments)
    return Misbehaved("Ready with other fragments than Joined");
  ready_step_ = Step::kDone;
  start_ =
      message.start == static_cast<uint8_t>(local::Start::kReplace) ? CW_REPLACE_ALL : CW_MATCH;
  members_ = message.members;
  if (formed_) return Reconcile(message);
  formed_ = true;
  for (uint32_t fragment = 0; fragment < progress_.size(); ++fragment) {
    Progress& progress = progress_[fragment];
    progress.newest_round = message.round[fragment];
    progress.newest = areas_;
    if (start_ != CW_MATCH) continue;
    progress.base_round = progress.told_round = progress.newest_round;
    progress.base = areas_;
  }
}

void Session::OnSubmitted(const local::Submitted& message) {
  for (auto& [id, operation] : operations_) {
    if (operation.wire_op != message.op || operation.wire_session != session_) continue;
    operation.acknowledged = true;
    if (!operation.ended()) operation.result.round = message.round;
  }
}

void Session::OnOpState(const local::OpState& message) {
  for (auto& [id, operation] : operations_) {
    const bool queried =
        operation.query_sequence != 0 && operation.query_sequence == message.header.answers;
    if (!queried && operation.wire_op != message.op) continue;
    if (operation.ended()) return;
    if (queried) operation.query_sequence = 0;
    if (message.state == static_cast<uint8_t>(local::State::kUnknown)) {
      return queried ? OnUnknown(operation) : Misbehaved("state UNKNOWN that answers no Query");
    }
    return UpdateOperation(operation, message);
  }
  // Of an operation that is applied or given up: nobody waits for it.
}

void Session::UpdateOperation(Operation& operation, const local::OpState& message) {
  if (message.fragment != operation.fragment)
    return Misbehaved("the state of an operation of another fragment");
  operation.acknowledged = true;
  Progress& progress = progress_[operation.fragment];
  cw_result& result = operation.result;
  result.in_doubt = message.in_doubt;
  const bool waits = message.state == static_cast<uint8_t>(local::State::kPending) ||
                     message.state == static_cast<uint8_t>(local::State::kStalled);
  result.wanted = waits && message.code <= progress_.size() ? message.code : 0;
  std::memcpy(result.awaited, message.awaited, sizeof(result.awaited));
  result.participants = message.participants;
  result.staleness = message.staleness;
  result.raw_bytes = message.raw_bytes;
  result.wire_bytes = message.wire_bytes;
  result.exchange_us = message.exchange_us;
  result.nonfinite = message.nonfinite;
  const auto state = static_cast<local::State>(message.state);
  if (state == local::State::kFailed) {
    Failure failure;
    const int code = CodeOf(message.code);
    if (notice_.code == code && !notice_.text.empty()) {
      failure = std::exchange(notice_, Failure{});
    } else {
      failure.code = code;
      failure.retryable = IsRetryable(code);
      failure.cluster = message.awaited;
      failure.round = message.round;
      failure.text = "round " + std::to_string(message.round) + " of fragment " +
                     std::to_string(operation.fragment) + " failed: " + CodeName(code);
    }
    return EndOperation(operation, std::move(failure));
  }
  if (state == local::State::kCommitted || state == local::State::kExcluded) {
    if (message.round <= operation.base_round)
      return Misbehaved("a result that is not newer than its base");
    // After a restart the gateway may already hold a newer value, which contains this result.
    progress.newest_round = std::max(message.round, progress.newest_round);
    progress.newest = areas_;
    operation.fresh = areas_;
    result.round = progress.newest_round;
  } else {
    result.round = message.round;
  }
  result.state = StateOf(message.state);
}

void Session::EndOperation(Operation& operation, Failure failure) {
  Progress& progress = progress_[operation.fragment];
  if (failure.code == CW_REBASE) {
    progress.stale = true;
    if (failure.round >= 0) {
      progress.newest_round = failure.round;
      progress.newest = areas_;
    }
  }
  operation.result.state = CW_STATE_FAILED;
  operation.failure = Status(std::move(failure));
}

void Session::OnAwaiting(const local::Awaiting& message) {
  if (message.header.answers != await_sequence_) return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.1f", static_cast<double>(message.waited_us) / 1e6);
  await_text_ = message.awaited;
  if (message.reason[0] != 0)
    await_text_ += std::string(await_text_.empty() ? "" : ": ") + message.reason;
  await_text_ += std::string(" (for ") + seconds + " s)";
  await_answered_ = true;
}

void Session::OnFinished(const local::Finished& message) {
  if (finish_step_ != Step::kSent) return;
  std::copy(std::begin(message.values_hash), std::end(message.values_hash), values_hash_.begin());
  finish_step_ = Step::kDone;
}

void Session::OnError(const local::Error& message) {
  Failure failure = FailureOf(message);
  const uint64_t answers = message.header.answers;
  if (phase_ == Phase::kGreeting) {
    return failure.retryable ? Retry(std::move(failure)) : Die(std::move(failure));
  }
  if (failure.fatal && !failure.retryable) return Die(std::move(failure));
  const bool ends = failure.fatal;  // this connection, not the trainer: a gateway that shuts down
  const Failure told = failure;
  if (answers != 0 && answers == join_sequence_ && join_step_ == Step::kSent) {
    if (formed_) return Retry(std::move(failure));
    join_step_ = Step::kNone;
    join_failure_ = Status(std::move(failure));
  } else if (answers != 0 && answers == offer_sequence_ && ready_step_ == Step::kSent) {
    if (formed_) return Retry(std::move(failure));
    ready_step_ = Step::kNone;
    offer_failure_ = Status(std::move(failure));
  } else if (answers != 0 && answers == finish_sequence_ && finish_step_ == Step::kSent) {
    finish_step_ = Step::kNone;
    finish_failure_ = Status(std::move(failure));
  } else if (answers != 0 && answers == await_sequence_ && !await_answered_) {
    await_text_ = failure.text;
    await_answered_ = true;
  } else if (answers != 0 && answers == share_sequence_ && share_step_ == Step::kSent) {
    share_step_ = Step::kNone;
  } else if (Operation* operation = Answered(answers)) {
    EndOperation(*operation, std::move(failure));
  } else {
    notice_ = std::move(failure);
  }
  if (ends) Retry(told);
}

Operation* Session::Answered(uint64_t sequence) {
  for (auto& [id, operation] : operations_) {
    const bool mine = sequence == operation.submit_sequence || sequence == operation.query_sequence;
    if (sequence != 0 && mine && !operation.ended()) return &operation;
  }
  return nullptr;
}

void Session::Retry(Failure failure) {
  LoseConnection();
  attempt_failure_ = Status(std::move(failure));
}

void Session::Die(Failure failure) {
  connection_.Close();
  phase_ = Phase::kDown;
  waiting_.ClearTimer();
  if (failure.text.empty()) failure.text = CodeName(failure.code);
  failure_ = Status(std::move(failure));
  waiting_.SetUnread(true);  // whoever polls learns it from the next call
  waiting_.WakeOthers();
}

void Session::Misbehaved(const char* what) {
  Die(Failure{.code = CW_PROTOCOL,
              .text = std::string("the gateway broke the protocol: ") + what +
                      "; check that causewayd and libcauseway are of one release"});
}

}  // namespace causeway::client
