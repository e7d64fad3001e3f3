// Connections and messages of the session table. Sessions' lives are in session_life.cc.
#include "daemon/trainers/session_table.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace causeway::trainers {
namespace {

constexpr int kMessagesPerTurn = 16;  // of one trainer, before the others have theirs
constexpr int kAcceptedPerTurn = 16;
constexpr int64_t kAcceptPauseUs = 200'000;  // when descriptors run out

absl::Status OutOfOrder(const Request& request, absl::string_view needed) {
  return absl::InvalidArgumentError(
      absl::StrCat(RequestName(request), " before ", needed, " is not legal"));
}

}  // namespace

SessionTable::~SessionTable() {
  while (!sessions_.empty()) EndSession(*sessions_.begin()->second, Gone::kStopped, "");
  StopListening();
}

absl::Status SessionTable::Listen() {
  confined_.Check();
  absl::StatusOr<loop::Descriptor> listening =
      ListenAt(config_.socket_path, config_.group, config_.mode);
  if (!listening.ok()) return listening.status();
  absl::StatusOr<FileId> file = IdentifyFile(config_.socket_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<loop::WatchId> watch =
      loop_.Watch(listening->get(), EPOLLIN, [this](uint32_t) { OnAcceptable(); });
  if (!watch.ok()) return watch.status();
  listening_ = *std::move(listening);
  socket_file_ = *file;
  listen_watch_ = *watch;
  return absl::OkStatus();
}

void SessionTable::StopListening() {
  confined_.Check();
  draining_ = true;
  if (accept_timer_ != 0) loop_.Cancel(accept_timer_);
  accept_timer_ = 0;
  if (!listening_.valid()) return;
  loop_.Remove(listen_watch_);
  listening_.Reset();
  absl::StatusOr<FileId> file = IdentifyFile(config_.socket_path);
  // Another daemon may have replaced it meanwhile.
  if (file.ok() && *file == socket_file_) unlink(config_.socket_path.c_str());
}

std::vector<Session*> SessionTable::Sessions() const {
  std::vector<Session*> sessions;
  for (const auto& [id, session] : sessions_) sessions.push_back(session.get());
  return sessions;
}

Session* SessionTable::Find(uint64_t session) const {
  auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void SessionTable::Later(std::function<void()> function) {
  // False only while the loop shuts down; the destructor then ends what is left.
  (void)loop_.Post([alive = std::weak_ptr<bool>(alive_), function = std::move(function)] {
    if (!alive.expired()) function();
  });
}

// ---- connections ----

void SessionTable::OnAcceptable() {
  for (int i = 0; i < kAcceptedPerTurn; ++i) {
    loop::Descriptor socket(
        accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      Accept(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    // Out of descriptors: the level-triggered watch would spin until some are free again.
    if (errno != EAGAIN) PauseAccepting();
    return;
  }
}

void SessionTable::PauseAccepting() {
  if (accept_timer_ != 0 || !loop_.Change(listen_watch_, 0).ok()) return;
  accept_timer_ = loop_.After(kAcceptPauseUs, [this] {
    accept_timer_ = 0;
    if (!loop_.Change(listen_watch_, EPOLLIN).ok()) PauseAccepting();
  });
}

void SessionTable::Accept(loop::Descriptor socket) {
  absl::StatusOr<Peer> peer = IdentifyPeer(socket.get());
  if (!peer.ok()) {
    listener_.OnTurnedAway(peer.status());
    return;
  }
  const uint64_t id = next_connection_++;
  auto owned = std::make_unique<Connection>(loop_, id, std::move(socket), *std::move(peer));
  Connection& connection = *owned;
  const absl::Status started =
      connection.Start([this, id] { OnReadable(id); }, [this, id] { OnBroken(id); });
  if (!started.ok()) {
    listener_.OnTurnedAway(started);
    return;
  }
  connections_.emplace(id, std::move(owned));
  if (connections_.size() > config_.sessions_max) {
    ++counters_.connections_refused;
    Problem problem;
    problem.code = local::Code::kMemory;
    problem.retryable = true;
    problem.text = absl::StrCat("the daemon serves at most ", config_.sessions_max,
                                " trainer connections at a time; close some and try again");
    listener_.OnTurnedAway(absl::ResourceExhaustedError(problem.text));
    Refuse(connection, 0, problem);
    return;
  }
  ++counters_.connections_accepted;
  connection.hello_timer = loop_.After(config_.hello_timeout_us, [this, id] {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second->hello_timer = 0;
    ProtocolError(*found->second, absl::InvalidArgumentError("no Hello came in time"));
  });
}

void SessionTable::OnReadable(uint64_t id) {
  Datagram datagram;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    switch (connection.Receive(datagram)) {
      case Transfer::kWouldBlock:
        return;
      case Transfer::kClosed:
        Detach(connection, "it closed the connection");
        return;
      case Transfer::kDone:
        ++counters_.messages_received;
        Handle(connection, datagram);
    }
  }
}

void SessionTable::OnBroken(uint64_t id) {
  Later([this, id] {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const bool slow = found->second->broken() == Connection::Break::kSlow;
    if (slow) ++counters_.slow_readers;
    Detach(*found->second, slow ? "it does not read its messages" : "its connection broke");
  });
}

void SessionTable::CloseConnection(Connection& connection) {
  if (connection.session != nullptr) connection.session->connection_ = nullptr;
  counters_.messages_sent += connection.sent();
  connection.DiscardInput();
  connections_.erase(connection.id());
}

void SessionTable::Refuse(Connection& connection, uint64_t answers, const Problem& problem) {
  local::Error message{};
  message.header.magic = local::kMagic;
  message.header.version = connection.version != 0 ? connection.version : local::kVersionMax;
  message.header.type = static_cast<uint16_t>(local::Type::kError);
  message.header.size = sizeof(message);
  message.header.sequence = connection.next_sequence++;
  message.header.answers = answers;
  FillError(problem, 0, message);
  message.fatal = 1;
  connection.Send({reinterpret_cast<const uint8_t*>(&message), sizeof(message)}, {});
  CloseConnection(connection);
}

void SessionTable::ProtocolError(Connection& connection, const absl::Status& status) {
  ++counters_.protocol_errors;
  Problem problem;
  problem.code = local::Code::kProtocol;
  problem.fatal = true;
  problem.text = absl::StrCat("protocol error: ", status.message());
  if (connection.session == nullptr) return Refuse(connection, 0, problem);
  Session& session = *connection.session;
  session.SendError(0, problem);
  EndSession(session, Gone::kProtocol, std::string(status.message()));
}

// ---- messages ----

void SessionTable::Handle(Connection& connection, const Datagram& datagram) {
  if (connection.session != nullptr && connection.session->ended_) return;
  if (datagram.truncated) {
    return ProtocolError(connection, absl::InvalidArgumentError(absl::StrCat(
                                         "a message of more than ", local::kMessageBytesMax,
                                         " bytes or ", kDescriptorsMax, " descriptors")));
  }
  absl::StatusOr<Request> request =
      ParseRequest(datagram.bytes, datagram.descriptors.size(), connection.version);
  if (!request.ok()) return ProtocolError(connection, request.status());
  if (SequenceOf(*request) <= connection.last_sequence) {
    return ProtocolError(connection, absl::InvalidArgumentError(absl::StrCat(
                                         "sequence number ", SequenceOf(*request), " after ",
                                         connection.last_sequence, " does not ascend")));
  }
  connection.last_sequence = SequenceOf(*request);
  Dispatch(connection, *request, datagram);
}

void SessionTable::Dispatch(Connection& connection, const Request& request,
                            const Datagram& datagram) {
  if (const auto* hello = std::get_if<HelloRequest>(&request)) return Hello(connection, *hello);
  Session& session = *connection.session;
  if (std::holds_alternative<LeaveRequest>(request)) {
    return EndSession(session, Gone::kLeft, "");
  }
  const absl::Status status = HandleInSession(session, request, datagram);
  if (!status.ok()) ProtocolError(connection, status);
}

absl::Status SessionTable::HandleInSession(Session& session, const Request& request,
                                           const Datagram& datagram) {
  if (const auto* join = std::get_if<JoinRequest>(&request)) return Join(session, *join, datagram);
  if (const auto* query = std::get_if<QueryRequest>(&request)) {
    listener_.OnQuery(session, query->sequence, query->session, query->op);
    return absl::OkStatus();
  }
  if (const auto* await = std::get_if<AwaitRequest>(&request)) {
    listener_.OnAwait(session, await->sequence, await->op);
    return absl::OkStatus();
  }
  if (session.stage() < Stage::kJoined) return OutOfOrder(request, "Joined");
  if (const auto* share = std::get_if<ShareRequest>(&request)) {
    return Share(session, *share, datagram);
  }
  if (const auto* offer = std::get_if<OfferRequest>(&request)) {
    return Offer(session, *offer, datagram);
  }
  if (const auto* abandon = std::get_if<AbandonRequest>(&request)) {
    listener_.OnAbandon(session, abandon->sequence, abandon->op);
    return absl::OkStatus();
  }
  if (session.stage() < Stage::kReady) return OutOfOrder(request, "Ready");
  if (const auto* submit = std::get_if<SubmitRequest>(&request)) return Submit(session, *submit);
  if (const auto* applied = std::get_if<AppliedRequest>(&request)) {
    if (applied->fragment >= session.layout_->fragments().size()) {
      return absl::InvalidArgumentError(absl::StrCat("Applied: fragment ", applied->fragment,
                                                     " of ", session.layout_->fragments().size(),
                                                     " is not there"));
    }
    listener_.OnApplied(session, *applied);
    return absl::OkStatus();
  }
  listener_.OnFinish(session, SequenceOf(request));
  return absl::OkStatus();
}

absl::Status SessionTable::Join(Session& session, const JoinRequest& request,
                                const Datagram& datagram) {
  absl::StatusOr<std::vector<uint8_t>> records = ReadMemfd(
      datagram.descriptors.at(0).get(), uint64_t{request.tensors} * sizeof(local::TensorRecord));
  if (!records.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("Join: schema: ", records.status().message()));
  }
  absl::StatusOr<schema::Schema> schema = schema::Schema::Parse(*records, request.tensors);
  if (!schema.ok()) {
    Problem problem;
    problem.code = local::Code::kSchema;
    problem.fatal = true;
    problem.text = std::string(schema.status().message());
    session.SendError(request.sequence, problem);
    return absl::OkStatus();
  }
  session.stage_ = std::max(session.stage_, Stage::kJoining);
  listener_.OnJoin(session, request, *std::move(schema));
  return absl::OkStatus();
}

absl::Status SessionTable::Share(Session& session, const ShareRequest& request,
                                 const Datagram& datagram) {
  if (request.bytes < session.layout_->snapshot_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("Share: ", request.bytes,
                                                   " bytes cannot hold the snapshots' ",
                                                   session.layout_->snapshot_bytes()));
  }
  loop::Descriptor memory(fcntl(datagram.descriptors.at(0).get(), F_DUPFD_CLOEXEC, 0));
  if (!memory.valid()) {
    session.SendShared(request.sequence, false, "the daemon has no descriptor left");
    return absl::OkStatus();
  }
  listener_.OnShare(session, request, std::move(memory));
  return absl::OkStatus();
}

absl::Status SessionTable::Offer(Session& session, const OfferRequest& request,
                                 const Datagram& datagram) {
  std::vector<local::SliceRecord> slices(request.slices);
  if (request.slices > 0) {
    absl::StatusOr<std::vector<uint8_t>> records = ReadMemfd(
        datagram.descriptors.at(0).get(), uint64_t{request.slices} * sizeof(local::SliceRecord));
    if (!records.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Offer: slices: ", records.status().message()));
    }
    std::memcpy(slices.data(), records->data(), records->size());
  }
  const std::vector<local::FragmentRecord>& fragments = session.layout_->fragments();
  for (const local::SliceRecord& slice : slices) {
    if (slice.zero != 0) return absl::InvalidArgumentError("Offer: slice padding is not zero");
    if (slice.fragment >= fragments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("Offer: a slice of fragment ", slice.fragment,
                                                     " of ", fragments.size(), " is not there"));
    }
    const uint64_t elements = fragments[slice.fragment].elements;
    if (slice.first_element > elements || slice.element_count > elements - slice.first_element) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Offer: a slice of ", slice.element_count, " elements from ", slice.first_element,
          " leaves fragment ", slice.fragment, " of ", elements, " elements"));
    }
  }
  session.stage_ = std::max(session.stage_, Stage::kOffered);
  listener_.OnOffer(session, request, std::move(slices));
  return absl::OkStatus();
}

absl::Status SessionTable::Submit(Session& session, const SubmitRequest& request) {
  if (session.stage() == Stage::kFinished) {
    return absl::InvalidArgumentError("Submit after Finished is not legal");
  }
  const std::vector<local::FragmentRecord>& fragments = session.layout_->fragments();
  if (request.fragment >= fragments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("Submit: fragment ", request.fragment, " of ",
                                                   fragments.size(), " is not there"));
  }
  if (request.memory == local::Memory::kDevice && !session.device_memory_) {
    return absl::InvalidArgumentError("Submit: device memory that was not shared");
  }
  listener_.OnSubmit(session, request);
  return absl::OkStatus();
}

}  // namespace causeway::trainers
