// One trainer's session, as the daemon sees it: who it is, and the messages it can be sent.
//
// A session belongs to a process of this cluster (run, rank) and outlives its connection: a trainer
// that was cut off resumes it with its token, and op ids (session, op) stay meaningful. While no
// connection is there, what is sent is dropped: on resuming, the trainer asks (Query). Owned by
// TrainerService, confined to its loop's thread, valid until TrainerListener::OnGone returns.
// Sending never blocks and never fails visibly: a trainer that does not read is disconnected.
#ifndef CAUSEWAY_DAEMON_TRAINERS_SESSION_H_
#define CAUSEWAY_DAEMON_TRAINERS_SESSION_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/loop/descriptor.h"
#include "daemon/schema/layout.h"
#include "daemon/trainers/request.h"
#include "proto/local_protocol.h"

namespace causeway::trainers {

class Connection;

// What an Error message says. `text` names the thing and the remedy; over-long texts are clipped.
struct Problem {
  local::Code code = local::Code::kInternal;
  bool retryable = false;
  bool fatal = false;  // the session ends after this message
  int64_t round = -1;
  std::string cluster;           // who failed; empty: this one
  std::optional<uint32_t> rank;  // which of its ranks; none: the one that is told
  std::string tensor;
  std::string text;
};

// The run's terms, told to a trainer that joined.
struct Terms {
  uint32_t local_steps = 1;
  uint32_t delay_steps = 0;  // or local::kDelayAuto
  local::ApplyMode apply_mode = local::ApplyMode::kCarry;
  float mix = 0;
  float learning_rate = 1;  // outer
  float momentum = 0;
  bool outer = true;
  uint64_t wait_timeout_ms = 0;
  uint64_t peer_timeout_ms = 0;
  std::string rule;   // at most 31 bytes
  std::string codec;  // at most 31 bytes
};

struct OpReport {
  uint64_t op = 0;
  uint32_t fragment = 0;
  local::State state = local::State::kPending;
  bool in_doubt = false;
  local::Code code = local::Code::kOk;
  int64_t round = 0;
  uint32_t participants = 0;
  uint32_t staleness = 1;
  uint64_t raw_bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t exchange_us = 0;
  bool nonfinite = false;
  std::string awaited;  // clusters, comma separated
  std::optional<uint32_t> wanted;
};

// What a trainer has said so far; later messages are refused before earlier ones.
enum class Stage { kHello, kJoining, kJoined, kOffered, kReady, kFinished };

class Session {
 public:
  ~Session();
  uint64_t id() const { return id_; }  // never 0, never reused
  // First half of its op ids, told in Welcome: its own id, or what the listener's OnHello says.
  uint64_t operations() const { return operations_; }
  void set_operations(uint64_t id) { operations_ = id; }
  const std::string& run() const { return run_; }
  uint32_t rank() const { return rank_; }
  uint32_t world() const { return world_; }
  pid_t pid() const { return pid_; }  // 0: in a PID namespace that is not visible here
  uid_t uid() const { return uid_; }
  Stage stage() const { return stage_; }
  bool connected() const { return connection_ != nullptr; }
  const std::string& describe() const { return describe_; }  // "rank 0 of run demo, pid 4711"

  // `answers` is the request's sequence number; 0: unprompted.
  //
  // Makes the layout memfd; passes on duplicates of the two descriptors, which the caller keeps.
  void SendJoined(uint64_t answers, const Terms& terms,
                  std::shared_ptr<const schema::Layout> layout, int snapshot_descriptor,
                  int values_descriptor);
  void SendShared(uint64_t answers, bool accepted, absl::string_view reason);
  // `rounds`: the newest committed round of each fragment.
  void SendReady(uint64_t answers, local::Start start, uint32_t members,
                 absl::Span<const int64_t> rounds);
  void SendSubmitted(uint64_t answers, uint64_t op, int64_t round);
  void SendOpState(uint64_t answers, const OpReport& report);
  void SendAwaiting(uint64_t answers, uint64_t op, uint64_t waited_us, absl::string_view awaited,
                    absl::string_view reason);
  void SendFinished(uint64_t answers, const schema::Digest& values_hash);
  // A fatal problem ends the session: OnGone follows from the loop, never from inside this call.
  void SendError(uint64_t answers, const Problem& problem);

 private:
  friend class SessionTable;
  Session() = default;
  template <typename Message>
  Message Make(local::Type type, uint64_t answers) const;
  void Send(absl::Span<const uint8_t> message, absl::Span<const int> descriptors);
  void SendWelcome(uint64_t answers, const std::string& cluster, uint64_t incarnation);

  uint64_t id_ = 0;
  uint64_t operations_ = 0;
  Token token_{};
  std::string run_;
  std::string describe_;
  uint32_t rank_ = 0;
  uint32_t world_ = 1;
  pid_t pid_ = 0;
  uid_t uid_ = 0;
  Stage stage_ = Stage::kHello;
  bool device_memory_ = false;                    // Shared said yes
  std::shared_ptr<const schema::Layout> layout_;  // shared with the endpoint; set by SendJoined
  Connection* connection_ = nullptr;              // owned by the service
  bool ended_ = false;                            // a fatal error was sent
  loop::Descriptor process_;                      // a pidfd; invalid where it cannot be had
  uint64_t process_watch_ = 0;                    // loop::WatchId of it
  uint64_t resume_timer_ = 0;                     // loop::TimerId, while detached
  std::function<void()> on_end_;  // tells the table, later, that a fatal error was sent
};

// Everything of an Error message but its header.
void FillError(const Problem& problem, uint32_t rank, local::Error& message);

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_SESSION_H_
