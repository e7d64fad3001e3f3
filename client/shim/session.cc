// The session's life: opening, joining, the end.
#include "client/shim/session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "client/shim/fork_guard.h"

namespace causeway::client {
namespace {

// A gateway answers these at once; after this long it is called silent.
constexpr int64_t kReplyMs = 10'000;

}  // namespace

Session::Session(Identity identity) : identity_(std::move(identity)), pid_(getpid()) {
  ForkGuard::Add(this);
}

Session::~Session() {
  ForkGuard::Remove(this);
  if (!forked()) {
    announcer_.reset();  // its thread takes the lock
    {
      const Lock lock(mutex_);
      closing_ = true;
      waiting_.WakeOthers();
    }
    if (keeper_) keeper_->join();
    return;
  }
  (void)announcer_.release();  // their threads are the parent's
  (void)keeper_.release();
  if (cuda_) cuda_->Forget();
  // The mappings do not exist in this process; other things may lie there.
  auto forget = [](const std::shared_ptr<Areas>& areas) {
    if (areas) areas->snapshot.Forget(), areas->values.Forget(), areas->pin.reset();
  };
  forget(areas_);
  for (Progress& progress : progress_) forget(progress.base), forget(progress.newest);
  for (auto& [id, operation] : operations_) {
    forget(operation.sent), forget(operation.base), forget(operation.fresh);
  }
}

bool Session::forked() const { return forked_.load() || getpid() != pid_; }

void Session::BecomeChild(bool locked) {
  forked_.store(true);
  if (!locked) return;  // another thread of the parent was inside: the descriptors stay as they are
  connection_.Close();
  waiting_.Abandon();
}

Status Session::Enter(Lock& lock) {
  if (forked()) {
    return Status(
        CW_FORKED,
        "this process is a fork of the trainer that opened the handle; use it in process " +
            std::to_string(pid_) + " only, or open another with its own rank");
  }
  lock = Lock(mutex_);
  if (!failure_.ok()) return Status(failure_.failure());
  return Status();
}

Status Session::Lost() const {
  Failure failure;
  failure.code = CW_GATEWAY_LOST;
  failure.retryable = true;
  failure.cluster = cluster_;
  failure.text = "the connection to the gateway at " + identity_.socket_path + " is gone";
  if (!attempt_failure_.ok()) failure.text += "; " + attempt_failure_.failure().text;
  return Status(std::move(failure));
}

Deadline Session::DeadlineOf(int64_t timeout_ms) const {
  if (timeout_ms == CW_TIMEOUT_RUN) {
    return Deadline::In(terms_.wait_timeout_ms == 0 ? -1
                                                    : static_cast<int64_t>(std::min<uint64_t>(
                                                          terms_.wait_timeout_ms, INT64_MAX)));
  }
  return Deadline::In(timeout_ms);
}

Status Session::Await(Lock& lock, const Deadline& deadline, const std::function<bool()>& done) {
  const Clock::time_point entered = Clock::now();
  Status status = AwaitUncounted(lock, deadline, done);
  waited_ += Clock::now() - entered;
  return status;
}

Status Session::AwaitUncounted(Lock& lock, const Deadline& deadline,
                               const std::function<bool()>& done) {
  for (;;) {
    Pump();
    if (done()) return Status();
    if (!failure_.ok()) return Status(failure_.failure());
    if (opened_ && phase_ != Phase::kUp && !lost_told_) {
      lost_told_ = true;
      return Lost();
    }
    if (deadline.Passed(Clock::now())) {
      if (phase_ != Phase::kUp) return Lost();
      return Status(CW_TIMEOUT, "the wait ended before an answer came");
    }
    if (waiting_.Wait(lock, deadline) == Waiting::Wake::kSignal) {
      return Status(CW_INTERRUPTED, "a signal ended the wait; the operation goes on");
    }
  }
}

Status Session::Open(int64_t connect_timeout_ms) {
  Lock lock(mutex_);
  if (Status status = waiting_.Open(); !status.ok()) return status;
  const Deadline connect_by = Deadline::In(connect_timeout_ms);
  Deadline reply_by = Deadline::In(kReplyMs);
  next_attempt_ = Clock::now();
  for (;;) {
    Pump();
    if (phase_ == Phase::kUp) {
      if (identity_.world > 1) keeper_ = std::make_unique<std::thread>([this] { Keep(); });
      return Status();
    }
    if (!failure_.ok()) return Status(failure_.failure());
    if (phase_ == Phase::kDown) {
      // Between attempts: why the last one failed, and whether there is time for another.
      if (connect_by.Passed(Clock::now())) return Status(attempt_failure_.failure());
      reply_by = Deadline::In(kReplyMs);
    } else if (reply_by.Passed(Clock::now())) {
      return Status(CW_NOT_READY, "the gateway at " + identity_.socket_path + " does not answer");
    }
    const Deadline& until = phase_ == Phase::kDown ? connect_by : reply_by;
    if (waiting_.Wait(lock, until) == Waiting::Wake::kSignal) {
      return Status(CW_INTERRUPTED, "a signal ended the wait for the gateway");
    }
  }
}

// Reconnects while no call of the trainer is running. A gateway that comes back waits for all ranks
// of its trainer, and this one may be in a collective with a rank that waits for the gateway.
void Session::Keep() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals end waits of the trainer's own threads
  Lock lock(mutex_);
  try {
    while (!closing_ && failure_.ok()) {
      Pump();
      if (!closing_ && failure_.ok()) waiting_.Wait(lock, Deadline{});
    }
  } catch (const std::bad_alloc&) {
    Die(Failure{.code = CW_MEMORY, .text = "memory ran out while reconnecting to the gateway"});
  }
}

Status Session::Join(const cw_join_options& options, Schema schema) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (join_step_ == Step::kDone) {
    return Status(CW_ARGUMENT,
                  "this handle has joined already; open another one for other tensors");
  }
  schema_ = std::move(schema);
  join_options_ = options;
  join_failure_ = Status();
  if (phase_ != Phase::kUp) {
    // Join is sent when the connection is back.
    join_step_ = Step::kSent;
  } else if (join_step_ = Step::kSent; !SendJoin()) {
    return Lost();
  }
  Status status = Await(lock, Deadline::In(kReplyMs), [this] { return join_step_ != Step::kSent; });
  if (!status.ok()) {
    if (join_step_ == Step::kSent) join_step_ = Step::kNone;  // a late answer is not looked at
    return status;
  }
  return join_step_ == Step::kDone ? Status() : Status(join_failure_.failure());
}

Status Session::Offer(const cw_slice* slices, uint32_t count) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (join_step_ != Step::kDone) return Status(CW_ARGUMENT, "cw_join comes before cw_offer");
  if (ready_step_ != Step::kNone) return Status(CW_ARGUMENT, "the values were offered already");
  if (terms_.outer == 0 && identity_.world == 1 && count != 0) {
    return Status(CW_ARGUMENT, "gradient averaging offers no values: pass no slices");
  }
  std::vector<Part> parts;
  const bool whole = terms_.outer != 0 && identity_.world == 1;
  if (Status status = PlaceSlices(schema_, areas_->layout, -1, slices, count,
                                  whole ? Coverage::kWhole : Coverage::kAny, parts);
      !status.ok()) {
    return status;
  }
  Status copied = CheckCuda(parts);
  if (copied.ok() && terms_.outer != 0) copied = OfferFromDevice(parts);
  if (!copied.ok()) return copied;
  if (identity_.world > 1) {
    claim_ = RangesOf(parts);
    if (claim_.empty()) claim_.push_back({});  // a rank without a part says so
    if (claim_.size() > local::kSlicesMax) return Status(CW_ARGUMENT, "too many slices");
  }
  offer_failure_ = Status();
  ready_step_ = Step::kSent;
  Pump();
  if (phase_ == Phase::kUp && join_step_ == Step::kDone) SendOffer();
  return Status();
}

Status Session::Ready(int64_t timeout_ms, int& start, uint32_t& members) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (ready_step_ == Step::kNone) {
    if (!offer_failure_.ok()) return Status(offer_failure_.failure());
    return Status(CW_ARGUMENT, "cw_offer comes before cw_ready");
  }
  Status status =
      Await(lock, DeadlineOf(timeout_ms), [this] { return ready_step_ != Step::kSent; });
  if (!status.ok()) return status;
  if (ready_step_ == Step::kNone) return Status(offer_failure_.failure());
  start = start_;
  members = members_;
  return Status();
}

Status Session::Reconnect(int64_t timeout_ms) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  lost_told_ = true;
  return Await(lock, DeadlineOf(timeout_ms), [this] {
    const bool asked = std::any_of(operations_.begin(), operations_.end(), [](const auto& entry) {
      return entry.second.query_sequence != 0 && !entry.second.ended();
    });
    return phase_ == Phase::kUp && join_step_ != Step::kSent && !asked &&
           !(formed_ && ready_step_ == Step::kSent);
  });
}

Status Session::Finish(int64_t timeout_ms, uint8_t* values_hash) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (!operations_.empty())
    return Status(CW_BUSY, "operations are not applied yet: apply them first");
  if (finish_step_ == Step::kNone) {
    if (Status status = CheckRunning(); !status.ok()) return status;
    local::Finish message{};
    finish_failure_ = Status();
    finish_step_ = Step::kSent;
    if (!Send(message, local::Type::kFinish)) return Lost();
    finish_sequence_ = sequence_;
  }
  Status status =
      Await(lock, DeadlineOf(timeout_ms), [this] { return finish_step_ != Step::kSent; });
  if (!status.ok()) return status;
  if (finish_step_ == Step::kNone) return Status(finish_failure_.failure());
  if (values_hash != nullptr) std::memcpy(values_hash, values_hash_.data(), values_hash_.size());
  return Status();
}

Status Session::Leave() {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (phase_ == Phase::kUp) {
    local::Leave message{};
    Send(message, local::Type::kLeave);
  }
  connection_.Close();
  phase_ = Phase::kDown;
  Die(Failure{.code = CW_ARGUMENT, .text = "this handle has left the run; open another one"});
  return Status();
}

int Session::PollDescriptor() const { return forked() ? -1 : waiting_.poll_descriptor(); }

}  // namespace causeway::client
