// The inside of TrainerService: connections, sessions, and who may have which. See service.h.
//
// Confined to the loop's thread. Sessions outlive connections; whatever ends either from within one
// of its own callbacks is put off to the loop, so that no object is destroyed under its own feet.
#ifndef CAUSEWAY_DAEMON_TRAINERS_SESSION_TABLE_H_
#define CAUSEWAY_DAEMON_TRAINERS_SESSION_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/loop/confined.h"
#include "daemon/loop/descriptor.h"
#include "daemon/loop/loop.h"
#include "daemon/trainers/connection.h"
#include "daemon/trainers/request.h"
#include "daemon/trainers/service.h"
#include "daemon/trainers/session.h"
#include "daemon/trainers/socket.h"

namespace causeway::trainers {

class SessionTable {
 public:
  SessionTable(loop::Loop& loop, Config config, TrainerListener& listener)
      : loop_(loop), config_(std::move(config)), listener_(listener) {}
  ~SessionTable();

  absl::Status Listen();
  void StopListening();
  std::vector<Session*> Sessions() const;
  Session* Find(uint64_t session) const;
  const Counters& counters() const { return counters_; }

 private:
  // Connections.
  void OnAcceptable();
  void Accept(loop::Descriptor socket);
  void PauseAccepting();
  void OnReadable(uint64_t connection);
  void OnBroken(uint64_t connection);
  void CloseConnection(Connection& connection);
  // Sends an Error outside of a session and closes.
  void Refuse(Connection& connection, uint64_t answers, const Problem& problem);
  void ProtocolError(Connection& connection, const absl::Status& status);

  // Messages. Each may end the connection: it is looked up again afterwards.
  void Handle(Connection& connection, const Datagram& datagram);
  void Dispatch(Connection& connection, const Request& request, const Datagram& datagram);
  absl::Status HandleInSession(Session& session, const Request& request, const Datagram& datagram);
  void Hello(Connection& connection, const HelloRequest& request);
  void Resume(Connection& connection, const HelloRequest& request, Session& session);
  void Begin(Connection& connection, const HelloRequest& request, const Token& token);
  absl::Status Join(Session& session, const JoinRequest& request, const Datagram& datagram);
  absl::Status Share(Session& session, const ShareRequest& request, const Datagram& datagram);
  absl::Status Offer(Session& session, const OfferRequest& request, const Datagram& datagram);
  absl::Status Submit(Session& session, const SubmitRequest& request);

  // Sessions.
  std::optional<Problem> TakeIdentity(Connection& connection, const HelloRequest& request);
  void Attach(Connection& connection, Session& session);
  void Detach(Connection& connection, const std::string& why);
  void EndSession(Session& session, Gone gone, const std::string& detail);

  // Runs `function` from the loop, unless this table is gone by then.
  void Later(std::function<void()> function);

  loop::Loop& loop_;
  const Config config_;
  TrainerListener& listener_;
  loop::Confined confined_;
  loop::Descriptor listening_;
  FileId socket_file_;
  loop::WatchId listen_watch_ = 0;
  loop::TimerId accept_timer_ = 0;  // while accepting is paused
  bool draining_ = false;
  uint64_t next_connection_ = 1;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;  // by connection id
  std::map<uint64_t, std::unique_ptr<Session>> sessions_;        // by session id
  Counters counters_;
  // shared: what Later posted holds it weakly, to know whether this table is still there.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_SESSION_TABLE_H_
