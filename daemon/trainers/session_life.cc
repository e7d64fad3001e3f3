// How sessions begin, are resumed and end. Part of SessionTable.
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/trainers/session_table.h"

namespace causeway::trainers {
namespace {

// The session's id follows from its token, so that a token finds its session without comparing it
// with every other: first 8 bytes, little-endian, of SHA-256("causeway session\0" + token).
uint64_t SessionIdOf(const Token& token) {
  static constexpr char kDomain[] = "causeway session";
  std::array<uint8_t, sizeof(kDomain) + std::tuple_size_v<Token>> text;
  std::copy(std::begin(kDomain), std::end(kDomain), text.begin());
  std::copy(token.begin(), token.end(), text.begin() + sizeof(kDomain));
  std::array<uint8_t, 32> digest;
  const int done =
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  assert(done == 1 && "SHA-256 is always available");
  (void)done;
  uint64_t id = 0;
  for (int i = 7; i >= 0; --i) id = id << 8 | digest[i];
  return std::max<uint64_t>(id, 1);  // 0 means: no session
}

bool IsZero(const Token& token) {
  return std::all_of(token.begin(), token.end(), [](uint8_t b) { return b == 0; });
}

std::optional<Token> NewToken() {
  Token token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return std::nullopt;
  }
  return token;
}

Problem IdentityTaken(const Session& session) {
  Problem problem;
  problem.code = local::Code::kIdentityTaken;
  problem.text = absl::StrCat("rank ", session.rank(), " of run ", session.run(),
                              " is held by process ", session.pid(), " (uid ", session.uid(),
                              "), which is alive; stop it or give this process another rank");
  return problem;
}

}  // namespace

const char* GoneName(Gone gone) {
  switch (gone) {
    case Gone::kLeft:
      return "left";
    case Gone::kDied:
      return "died";
    case Gone::kClosed:
      return "closed";
    case Gone::kProtocol:
      return "protocol error";
    case Gone::kRefused:
      return "refused";
    case Gone::kStopped:
      return "stopped";
  }
  return "unknown";
}

void SessionTable::Hello(Connection& connection, const HelloRequest& request) {
  Problem problem;
  problem.fatal = true;
  if (draining_) {
    problem.code = local::Code::kDraining;
    problem.retryable = true;
    problem.text = "the daemon is shutting down; try again when it is back";
    return Refuse(connection, request.sequence, problem);
  }
  absl::StatusOr<uint16_t> version = ChooseVersion(request.version_min, request.version_max);
  if (!version.ok()) {
    problem.code = local::Code::kProtocol;
    problem.text = std::string(version.status().message());
    return Refuse(connection, request.sequence, problem);
  }
  connection.version = *version;
  if (!IsZero(request.token)) {
    if (Session* session = Find(SessionIdOf(request.token))) {
      return Resume(connection, request, *session);
    }
    // Ended, or from before this daemon started: the trainer begins anew and sees it by the token.
  }
  const std::optional<Token> token = NewToken();
  if (!token) {
    problem.code = local::Code::kInternal;
    problem.retryable = true;
    problem.text = "the system has no random numbers yet";
    return Refuse(connection, request.sequence, problem);
  }
  Begin(connection, request, *token);
}

void SessionTable::Resume(Connection& connection, const HelloRequest& request, Session& session) {
  const bool same =
      CRYPTO_memcmp(session.token_.data(), request.token.data(), request.token.size()) == 0 &&
      session.run_ == request.run && session.rank_ == request.rank &&
      session.pid_ == connection.peer().pid && session.uid_ == connection.peer().uid;
  if (!same) return Refuse(connection, request.sequence, IdentityTaken(session));
  if (session.connection_ != nullptr) CloseConnection(*session.connection_);  // superseded
  Attach(connection, session);
  session.SendWelcome(request.sequence, config_.cluster, config_.incarnation);
  listener_.OnResumed(session);
}

// Whoever holds (run, rank) and can be shown to be gone makes room; a value says who does not.
std::optional<Problem> SessionTable::TakeIdentity(Connection& connection,
                                                  const HelloRequest& request) {
  const Peer& peer = connection.peer();
  for (Session* session : Sessions()) {
    if (session->run() != request.run || session->rank() != request.rank) continue;
    if (session->process_.valid() && ProcessIsDead(session->process_.get())) {
      EndSession(*session, Gone::kDied, "its process is gone");
    } else if (!session->connected() && peer.pid != 0 && session->pid() == peer.pid) {
      EndSession(*session, Gone::kClosed, "its process began a new session");
    } else {
      return IdentityTaken(*session);
    }
  }
  if (sessions_.size() >= config_.sessions_max) {
    Problem problem;
    problem.code = local::Code::kMemory;
    problem.retryable = true;
    problem.text = absl::StrCat("the daemon serves at most ", config_.sessions_max, " trainers");
    return problem;
  }
  return std::nullopt;
}

void SessionTable::Begin(Connection& connection, const HelloRequest& request, const Token& token) {
  if (const std::optional<Problem> taken = TakeIdentity(connection, request)) {
    return Refuse(connection, request.sequence, *taken);
  }
  std::unique_ptr<Session> owned(new Session);
  Session& session = *owned;
  session.token_ = token;
  session.id_ = session.operations_ = SessionIdOf(token);
  session.run_ = request.run;
  session.rank_ = request.rank;
  session.world_ = request.world;
  session.pid_ = connection.peer().pid;
  session.uid_ = connection.peer().uid;
  session.describe_ =
      absl::StrCat("rank ", session.rank_, " of run ", session.run_, ", pid ", session.pid_);
  session.process_ = std::move(connection.peer().process);
  session.on_end_ = [this, id = session.id_] {
    Later([this, id] {
      Session* ended = Find(id);
      if (ended != nullptr && ended->ended_) EndSession(*ended, Gone::kRefused, "");
    });
  };
  if (const std::optional<Problem> problem = listener_.OnHello(session)) {
    return Refuse(connection, request.sequence, *problem);
  }
  if (session.process_.valid()) {
    absl::StatusOr<loop::WatchId> watch =
        loop_.Watch(session.process_.get(), EPOLLIN, [this, id = session.id_](uint32_t) {
          if (Session* dead = Find(id)) EndSession(*dead, Gone::kDied, "its process is gone");
        });
    // Without the watch, its death is still seen when somebody asks for its identity.
    if (watch.ok()) session.process_watch_ = *watch;
  }
  sessions_.emplace(session.id_, std::move(owned));
  Attach(connection, session);
  session.SendWelcome(request.sequence, config_.cluster, config_.incarnation);
}

void SessionTable::Attach(Connection& connection, Session& session) {
  if (connection.hello_timer != 0) loop_.Cancel(connection.hello_timer);
  connection.hello_timer = 0;
  if (session.resume_timer_ != 0) loop_.Cancel(session.resume_timer_);
  session.resume_timer_ = 0;
  connection.session = &session;
  session.connection_ = &connection;
}

void SessionTable::Detach(Connection& connection, const std::string& why) {
  Session* session = connection.session;
  CloseConnection(connection);
  if (session == nullptr) return;
  if (session->ended_) return;  // its end is on its way
  if (session->process_.valid() && ProcessIsDead(session->process_.get())) {
    return EndSession(*session, Gone::kDied, "its process is gone");
  }
  session->resume_timer_ = loop_.After(config_.resume_timeout_us, [this, id = session->id(), why] {
    Session* lost = Find(id);
    if (lost == nullptr) return;
    lost->resume_timer_ = 0;
    EndSession(*lost, Gone::kClosed, absl::StrCat(why, " and did not come back in time"));
  });
  listener_.OnDetached(*session);
}

void SessionTable::EndSession(Session& session, Gone gone, const std::string& detail) {
  auto found = sessions_.find(session.id_);
  assert(found != sessions_.end());
  const std::unique_ptr<Session> owned = std::move(found->second);
  sessions_.erase(found);
  if (session.connection_ != nullptr) CloseConnection(*session.connection_);
  if (session.resume_timer_ != 0) loop_.Cancel(session.resume_timer_);
  if (session.process_watch_ != 0) loop_.Remove(session.process_watch_);
  session.ended_ = true;
  listener_.OnGone(session, gone, detail);
}

}  // namespace causeway::trainers
