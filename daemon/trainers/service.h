// The trainers' door: a unix SOCK_SEQPACKET socket that speaks proto/local_protocol.h.
//
// Turns hostile datagrams into checked calls of a TrainerListener and keeps the table of sessions:
// who is there, who may resume, who died. Death is seen by pidfd, since forked children keep
// sockets open. Confined to the loop's thread. Does not: know runs, rounds or data; the listener
// (daemon/run) does.
//
// Bounded: connections, time until Hello, messages read a turn, bytes queued to a trainer that does
// not read. What dies with an error: the session of the trainer that made it, nothing else.
#ifndef CAUSEWAY_DAEMON_TRAINERS_SERVICE_H_
#define CAUSEWAY_DAEMON_TRAINERS_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/loop/descriptor.h"
#include "daemon/loop/loop.h"
#include "daemon/schema/schema.h"
#include "daemon/trainers/request.h"
#include "daemon/trainers/session.h"
#include "proto/local_protocol.h"

namespace causeway::trainers {

struct Config {
  std::string cluster;       // this one's name, told in Welcome
  uint64_t incarnation = 0;  // of this process, told in Welcome
  std::string socket_path;
  std::string group;     // of the socket; empty: the process's own
  uint32_t mode = 0660;  // of the socket
  uint32_t sessions_max = 256;
  int64_t hello_timeout_us = 5'000'000;    // a connection that says nothing is closed
  int64_t resume_timeout_us = 10'000'000;  // a cut-off session of a living process waits this long
};

enum class Gone {
  kLeft,    // said Leave
  kDied,    // its process is gone
  kClosed,  // cut off (or too slow to read) and not resumed in time, or replaced by its own process
  kProtocol,  // sent something illegal
  kRefused,   // the listener sent a fatal error
  kStopped,   // this service stops
};
const char* GoneName(Gone gone);

// What arrives, already checked against the protocol and, from Submit on, against the session's
// layout. All calls on the loop's thread; none may delete the service.
class TrainerListener {
 public:
  virtual ~TrainerListener() = default;

  // A new session; a value refuses it with that problem. The service itself has refused live
  // duplicates.
  virtual std::optional<Problem> OnHello(Session& session) = 0;
  virtual void OnJoin(Session& session, const JoinRequest& request, schema::Schema schema) = 0;
  // Whether snapshots may lie in that allocation of the trainer's device (Session::SendShared).
  // `bytes` are at least the layout's; whether the descriptor is what it says must be tried. The
  // base answers no.
  virtual void OnShare(Session& session, const ShareRequest& request, loop::Descriptor memory);
  // Each slice lies inside its fragment; none: all of it.
  virtual void OnOffer(Session& session, const OfferRequest& request,
                       std::vector<local::SliceRecord> slices) = 0;
  virtual void OnSubmit(Session& session, const SubmitRequest& request) = 0;
  virtual void OnApplied(Session& session, const AppliedRequest& request) = 0;
  virtual void OnAbandon(Session& session, uint64_t sequence, uint64_t op) = 0;
  // `op_session` may be an earlier session's.
  virtual void OnQuery(Session& session, uint64_t sequence, uint64_t op_session, uint64_t op) = 0;
  virtual void OnAwait(Session& session, uint64_t sequence, uint64_t op) = 0;
  virtual void OnFinish(Session& session, uint64_t sequence) = 0;
  // The connection was lost, or is there again; the session lives on. The trainer will Query its
  // ops.
  virtual void OnDetached(Session&) {}
  virtual void OnResumed(Session&) {}
  // A connection was closed here before it became a session: for the log.
  virtual void OnTurnedAway(const absl::Status&) {}
  // The last call for this session, once for each that OnHello accepted.
  virtual void OnGone(Session& session, Gone gone, const std::string& detail) = 0;
};

struct Counters {
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;  // over sessions_max
  uint64_t protocol_errors = 0;
  uint64_t slow_readers = 0;  // disconnected because their queue was full
  uint64_t messages_received = 0;
  uint64_t messages_sent = 0;
};

class SessionTable;

class TrainerService {
 public:
  // Listens from the moment it returns; callbacks come once the loop runs. `loop` and `listener`
  // outlive the service. Errors name the path and the remedy: AlreadyExists when another daemon
  // answers there, FailedPrecondition when something that is no socket is in the way, NotFound for
  // a missing directory or group, PermissionDenied.
  static absl::StatusOr<std::unique_ptr<TrainerService>> Create(loop::Loop& loop, Config config,
                                                                TrainerListener& listener);
  ~TrainerService();  // every session is Gone::kStopped, the socket is removed

  // No new connections from now on; those there are told kDraining on their next Hello.
  void StopListening();

  // Sessions in order of id; pointers are valid until the loop runs on.
  std::vector<Session*> Sessions() const;
  Session* Find(uint64_t session) const;  // null: not known here
  const Counters& counters() const;

 private:
  explicit TrainerService(std::unique_ptr<SessionTable> table);
  std::unique_ptr<SessionTable> table_;
};

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_SERVICE_H_
