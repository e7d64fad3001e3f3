// A trainer's session with its gateway: what causeway.h promises, behind one lock.
//
// The session is a state machine that whichever call holds the lock drives: Pump reads what has
// arrived and reconnects when it is time. Requests go out at once, answers change the state, and a
// call that needs an answer waits (Await), releasing the lock. After a lost connection the same
// machine says Hello again and either resumes the session or joins anew and reconciles every
// operation. Where the trainer has several ranks a thread drives it between calls, too (Keep).
//
// Files: session.cc (life), session_operations.cc, session_data.cc (copies and merges),
// session_receive.cc (messages), session_resume.cc.
// Any thread; the C ABI (causeway.cc) turns the results into codes.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/include/causeway.h"
#include "client/shim/announcer.h"
#include "client/shim/connection.h"
#include "client/shim/cuda_device.h"
#include "client/shim/failure.h"
#include "client/shim/merge.h"
#include "client/shim/operation.h"
#include "client/shim/schema.h"
#include "client/shim/slices.h"
#include "client/shim/waiting.h"
#include "proto/local_protocol.h"

namespace causeway::client {

struct Identity {
  std::string run;
  std::string socket_path;
  uint32_t rank = 0;
  uint32_t world = 1;
};

class Session {
 public:
  explicit Session(Identity identity);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status Open(int64_t connect_timeout_ms);
  Status Join(const cw_join_options& options, Schema schema);
  Status UseCuda(const cw_cuda& cuda, bool& shared);
  Status Offer(const cw_slice* slices, uint32_t count);
  Status Ready(int64_t timeout_ms, int& start, uint32_t& members);
  Status Submit(const cw_submission& submission, const cw_slice* slices, uint32_t count,
                uint64_t& op);
  Status Test(uint64_t op, cw_result& result);
  Status Wait(uint64_t op, int64_t timeout_ms, cw_result& result);
  Status Apply(uint64_t op, int mode, float mix, const cw_slice* slices, uint32_t count);
  Status Read(uint32_t fragment, int64_t round, const cw_slice* slices, uint32_t count);
  Status Applied(uint32_t fragment, int64_t round);
  Status Abandon(uint64_t op);
  Status AwaitText(uint64_t op, std::string& text);
  Status Reconnect(int64_t timeout_ms);
  Status Finish(int64_t timeout_ms, uint8_t* values_hash);
  Status Leave();
  Status LayoutOf(cw_layout& layout);
  Status FragmentOf(uint32_t fragment, cw_fragment& out);
  Status PlacementOf(uint32_t tensor, cw_placement& out);
  int PollDescriptor() const;

  // Fork handling (fork_guard.cc): around a fork, in the forking thread.
  bool LockForFork() { return mutex_.try_lock(); }
  void UnlockAfterFork() { mutex_.unlock(); }
  void BecomeChild(bool locked);
  bool forked() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Phase { kDown, kGreeting, kUp };
  enum class Step { kNone, kSent, kDone };  // of a request that is answered once

  // The lock of a call, or FORKED, or the failure that ended the session.
  Status Enter(Lock& lock);
  // Pumps and waits until `done`; GATEWAY_LOST once for each loss, TIMEOUT, INTERRUPTED, or what
  // ended the session.
  Status Await(Lock& lock, const Deadline& deadline, const std::function<bool()>& done);
  Status AwaitUncounted(Lock& lock, const Deadline& deadline, const std::function<bool()>& done);
  void Keep();  // a thread of its own
  Deadline DeadlineOf(int64_t timeout_ms) const;
  Status Lost() const;  // GATEWAY_LOST with the reason
  bool running() const { return phase_ == Phase::kUp && ready_step_ == Step::kDone; }
  Status CheckRunning() const;  // that submitting is possible
  Status CheckFragment(uint32_t fragment) const;
  Operation* Find(uint64_t op);
  Status NoSuchOperation(uint64_t op) const;
  Status Report(Operation& operation,
                cw_result& result);  // marks it told, forgets it when it failed
  void Forget(uint64_t op);
  void RefreshUnread();

  // session_data.cc
  void CopyIn(const std::vector<Part>& parts);
  std::vector<Range> OwnRanges(uint32_t fragment) const;  // of the snapshot
  Status CheckClaim(uint32_t fragment, const std::vector<Part>& parts) const;
  Status PlanMerge(const Operation& operation, int mode, float mix, int& rule) const;

  // session_cuda.cc
  Status NegotiateSharing(Lock& lock);
  bool SendShare();
  Status CheckCuda(const std::vector<Part>& parts) const;
  uint64_t SnapshotOffset(const Part& part) const;
  uint64_t SnapshotBytes() const;
  // Into the snapshot, whichever it is; with `mark` the copy is under way.
  Status CopyFromDevice(const std::vector<Part>& parts, Operation& operation,
                        std::shared_ptr<cuda::Mark>& mark);
  void OnCopied(uint64_t op, Status status);
  Status FetchSnapshot(Operation& operation);
  Status OfferFromDevice(const std::vector<Part>& parts);
  Status MergeOnDevice(Rule rule, const Operation* operation, const std::vector<Part>& parts,
                       std::vector<MergeSpan> spans);
  Status MergeParts(const Areas& fresh, int64_t fresh_round, const Operation* operation, Rule rule,
                    float mix, uint32_t fragment, const std::vector<Part>& parts);

  // session_receive.cc: all with the lock held.
  void Pump();
  void Receive(Datagram& datagram);
  void OnWelcome(const local::Welcome& message);
  void OnJoined(const local::Joined& message, const std::vector<Descriptor>& descriptors);
  void OnShared(const local::Shared& message);
  void OnReady(const local::Ready& message);
  void OnSubmitted(const local::Submitted& message);
  void OnOpState(const local::OpState& message);
  void OnAwaiting(const local::Awaiting& message);
  void OnFinished(const local::Finished& message);
  void OnError(const local::Error& message);
  Operation* Answered(uint64_t sequence);  // that the request with this number is about, or null
  Status MapAreas(const local::Joined& message, const std::vector<Descriptor>& descriptors,
                  std::shared_ptr<Areas>& areas) const;
  void UpdateOperation(Operation& operation, const local::OpState& message);
  void EndOperation(Operation& operation, Failure failure);
  void Die(Failure failure);  // the session has ended; every later call answers this
  void Misbehaved(const char* what);

  // session_resume.cc: connecting, and what follows a new connection.
  void Attempt();
  void LoseConnection();
  void ScheduleAttempt();
  void Resume(bool resumed);
  void RepeatFinish();
  void Retry(Failure failure);  // the gateway is not ready to take this session back: later
  void FillOffer(const Areas& old);
  void Reconcile(const local::Ready& message);
  void ReconcileFragment(uint32_t fragment, int64_t round);
  void QueryOperations();
  void OnUnknown(Operation& operation);
  void Resubmit(Operation& operation);
  void TellApplied();
  uint32_t TakeComputing(Progress& progress) const;

  // Sending. False: the connection is lost now.
  local::Header Head(local::Type type, uint32_t size);
  template <typename T>
  bool Send(T& message, local::Type type, int attached = -1);
  bool SendJoin();
  bool SendOffer();
  bool SendSubmit(Operation& operation);

  const Identity identity_;
  const pid_t pid_;
  std::atomic<bool> forked_{false};
  mutable std::mutex mutex_;

  Waiting waiting_;
  Clock::duration waited_{};  // in Await, by all threads
  Connection connection_;
  Phase phase_ = Phase::kDown;
  bool opened_ = false;  // a first Welcome came: from now on losses are mended
  bool lost_told_ = true;
  Status attempt_failure_;  // why there is no connection
  Clock::time_point lost_at_{};
  Clock::time_point next_attempt_{};
  int64_t attempt_pause_ms_ = 0;

  uint16_t version_ = 0;  // of the protocol, once chosen
  uint64_t sequence_ = 0;
  std::array<uint8_t, 16> token_{};
  uint64_t session_ = 0;
  std::string cluster_;
  Status failure_;  // what ended the session

  Schema schema_;
  cw_join_options join_options_{};
  uint64_t hello_sequence_ = 0, join_sequence_ = 0, offer_sequence_ = 0, finish_sequence_ = 0;
  Step join_step_ = Step::kNone, ready_step_ = Step::kNone, finish_step_ = Step::kNone;
  Status join_failure_, offer_failure_, finish_failure_;
  local::Joined terms_{};
  std::shared_ptr<Areas> areas_;
  bool formed_ = false;  // a first Ready came
  int start_ = CW_MATCH;
  uint32_t members_ = 0;
  std::array<uint8_t, 32> values_hash_{};

  std::shared_ptr<cuda::Device>
      cuda_;  // shared with the pins of areas; null: tensors are the host's
  cuda::Stream stream_ = nullptr;
  bool snapshot_tried_ = false;
  bool share_wanted_ = false;
  bool shared_ = false;  // the gateway reads the device's snapshot
  Step share_step_ = Step::kNone;
  uint64_t share_sequence_ = 0;

  std::vector<Progress> progress_;  // by fragment
  std::map<uint64_t, Operation> operations_;
  std::vector<Range> claim_;   // what this rank provides, where there are several
  uint64_t last_op_ = 0;       // id given out
  uint64_t last_wire_op_ = 0;  // number sent
  Failure notice_;             // the latest error that answered nothing: details for a FAILED state

  uint64_t await_sequence_ = 0;  // of the latest Await
  bool await_answered_ = false;
  std::string await_text_;

  std::unique_ptr<Announcer> announcer_;  // ends before what it tells
  bool closing_ = false;                  // the keeper is to end
  std::unique_ptr<std::thread> keeper_;   // null: one rank
};

template <typename T>
bool Session::Send(T& message, local::Type type, int attached) {
  message.header = Head(type, sizeof(T));
  if (connection_.Send(&message, sizeof(T), attached)) return true;
  LoseConnection();
  return false;
}

}  // namespace causeway::client
