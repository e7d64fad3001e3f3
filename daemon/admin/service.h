// The admin service: what the operator's command asks of a running daemon, over a unix socket whose
// mode (0660, and its group) is the authorisation.
//
// Threads: Start and Stop from one thread; the provider is called on gRPC's threads, several at a
// time, and hops to its own. gRPC's types stay in the source file. Does not: decide anything; the
// provider answers.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::admin {

namespace v1 {
class ChangeRunRequest;
class StatusReply;
}  // namespace v1

// Implemented by the daemon. Calls must return within seconds and must not outlive
// AdminService::Stop.
class StatusProvider {
 public:
  virtual ~StatusProvider() = default;
  // Unavailable: nobody answers in time.
  virtual absl::Status FillStatus(v1::StatusReply* reply) = 0;
  // What an operator does to a run; returns what was done, in words. NotFound names the known runs,
  // FailedPrecondition says why not now, InvalidArgument what is wrong with the request.
  virtual absl::StatusOr<std::string> ChangeRun(const v1::ChangeRunRequest& request) = 0;
};

class AdminService {
 public:
  // Binds the socket with mode 0660 and `group` (empty: the process's own) from its first moment,
  // whatever the umask. A stale socket is replaced, one that a live daemon answers on is refused
  // (AlreadyExists), and so is a path that is not a socket. `provider` must outlive the service.
  static absl::StatusOr<std::unique_ptr<AdminService>> Start(const std::string& socket,
                                                             const std::string& group,
                                                             StatusProvider& provider);
  ~AdminService();  // Stop
  // Gives running calls 2 s, cancels them, waits for the provider to return from them, then removes
  // the socket. Not from a thread that the provider waits for: they would wait for each other.
  void Stop();

 private:
  class Impl;
  explicit AdminService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace causeway::admin
