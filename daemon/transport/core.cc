// Bounds are enforced where the caller is: counters that the poller decrements, so that a refusal
// is an answer and not an event. Stopping: links end, the server shuts down, streams drain, then
// the queue.
#include "daemon/transport/core.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/frames.h"
#include "daemon/transport/latch.h"
#include "daemon/transport/transport_config.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

constexpr absl::Duration kStopPatience = absl::Milliseconds(500);
constexpr absl::Duration kDrainPoll = absl::Milliseconds(10);
// The poller may wait for room in the caller's own inbox: then the newest known status must do.
constexpr absl::Duration kStatusWait = absl::Seconds(2);
// How old TCP's own numbers may be, for measuring and for a status.
constexpr absl::Duration kTcpPeriod = absl::Seconds(1);
constexpr absl::Duration kGatherPeriod = absl::Milliseconds(50);
constexpr absl::Duration kTcpStatusAge = absl::Milliseconds(100);

bool BehindRelay(const PeerConfig& peer) { return !peer.relay.empty(); }

// A peer behind a relay is dialled at this process's own entrance to the tunnels.
TransportConfig WithEntrances(TransportConfig config) {
  for (size_t i = 0; i < config.peers.size(); ++i) {
    PeerConfig& peer = config.peers[i];
    if (BehindRelay(peer)) peer.address = TunnelEntranceTarget(config.incarnation, i);
  }
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Create(TransportConfig config,
                                                             memory::BufferPool* pool,
                                                             TransportListener* listener) {
  if (absl::Status check = CheckConfig(config); !check.ok()) {
    return absl::Status(check.code(), absl::StrCat("transport: ", check.message()));
  }
  return std::unique_ptr<Transport>(new Core(std::move(config), pool, listener));
}

Core::Core(TransportConfig config, memory::BufferPool* pool, TransportListener* listener)
    : config_(WithEntrances(std::move(config))),
      quota_("causeway"),
      pool_(pool),
      listener_(listener) {
  quota_.Resize(QuotaBytes(0));
  for (const PeerConfig& peer : config_.peers) entries_[peer.cluster];
}

Core::~Core() { Stop(); }

absl::Status Core::Listen() {
  // gRPC's own health service would bring two more threads that poll all connections, and half as
  // much processor time again for every byte received; Greeter answers in its place.
  grpc::EnableDefaultHealthCheckService(false);
  service_ = std::make_unique<grpc::AsyncGenericService>();
  grpc::ServerBuilder builder;
  const LinkTimes times(config_.peer_timeout);
  ConfigureServer(builder, times.peer_timeout, times.hello_timeout, quota_);
  if (!config_.listen.empty()) {
    builder.AddListeningPort(config_.listen, config_.server_credentials, &port_);
  }
  const bool tunnels = std::any_of(config_.peers.begin(), config_.peers.end(), BehindRelay);
  int tunnel_port = 0;
  if (tunnels) {
    builder.AddListeningPort(TunnelServerTarget(config_.incarnation), config_.server_credentials,
                             &tunnel_port);
  }
  builder.RegisterAsyncGenericService(service_.get());
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* server_queue = queue.get();
  poller_ = std::make_unique<Poller>(std::move(queue));
  server_ = builder.BuildAndStart();
  const bool bound = (config_.listen.empty() || port_ != 0) && (!tunnels || tunnel_port != 0);
  if (server_ == nullptr || !bound) {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    poller_->Shutdown();
    server_ = nullptr;
    return absl::UnavailableError(absl::StrCat("cannot listen on ", config_.listen,
                                               ": the address is in use or not of this host"));
  }
  shared_ = std::make_unique<Shared>(config_, *pool_, quota_, *listener_, *poller_);
  relay_ = std::make_unique<TunnelRelay>(
      *shared_, [this](const std::string& to, uint64_t tunnel, const std::string& from) {
        Entry* entry = Find(to);
        return entry != nullptr && entry->peer->SendTunnelOffer(tunnel, from);
      });
  greeter_ = std::make_unique<Greeter>(*shared_, *relay_, [this](const std::string& cluster) {
    Entry* entry = Find(cluster);
    return entry == nullptr ? nullptr : entry->peer.get();
  });
  if (tunnels) {
    tunnels_ = std::make_unique<Tunnels>(*shared_);
    if (absl::Status opened = tunnels_->Start(); !opened.ok()) return opened;
    shared_->tunnels = tunnels_.get();
  }
  acceptor_ =
      std::make_unique<StreamAcceptor>(shared_->streams, *service_, *server_queue, *greeter_);
  return absl::OkStatus();
}

absl::Status Core::Start() {
  if (started_) return absl::FailedPreconditionError("transport: already started");
  if (!config_.listen.empty() ||
      std::any_of(config_.peers.begin(), config_.peers.end(), BehindRelay)) {
    if (absl::Status listening = Listen(); !listening.ok()) return listening;
  } else {
    poller_ = std::make_unique<Poller>(std::make_unique<grpc::CompletionQueue>());
    shared_ = std::make_unique<Shared>(config_, *pool_, quota_, *listener_, *poller_);
  }
  const absl::Time now = MonotonicNow();
  for (const PeerConfig& peer : config_.peers) {
    Entry& entry = entries_[peer.cluster];
    entry.peer = std::make_unique<Peer>(*shared_, peer, entry.front, now);
  }
  if (acceptor_ != nullptr) acceptor_->AcceptNext();
  started_ = true;
  poller_->Start(
      shared_->times.tick, [this] { Tick(); }, [this] { Settle(); });
  return absl::OkStatus();
}

void Core::Tick() {
  const absl::Time now = MonotonicNow();
  if (now - tcp_seen_at_ >= kTcpPeriod) {
    tcp_seen_at_ = now;
    shared_->tcp.Refresh(now, shared_->times.tick / 2);
    for (auto& [name, entry] : entries_) entry.peer->OnTcp(now);
  }
  shared_->streams.Tick(now);
  for (auto& [name, entry] : entries_) {
    entry.peer->Tick(now);
    if (shared_->draining) entry.peer->Drain();
  }
  shared_->channels.Sweep();
  Gather(now);
  std::vector<PeerRates> rates;
  for (auto& [name, entry] : entries_) rates.push_back(entry.peer->Rates(now));
  absl::MutexLock lock(&status_mutex_);
  rates_ = std::move(rates);
}

void Core::Gather(absl::Time now) {
  if (now - gathered_at_ < kGatherPeriod) return;
  Traffic traffic;
  uint64_t received = 0, sent = 0;
  for (auto& [name, entry] : entries_) entry.peer->AddTraffic(traffic, received, sent);
  const double seconds = absl::ToDoubleSeconds(now - gathered_at_);
  traffic.bytes_received_per_s = static_cast<double>(received - bytes_received_) / seconds;
  traffic.bytes_sent_per_s = static_cast<double>(sent - bytes_sent_) / seconds;
  gathered_at_ = now;
  bytes_received_ = received;
  bytes_sent_ = sent;
  poller_->Gather(GatherTime(traffic), traffic.connections);
}

std::vector<PeerRates> Core::Rates() {
  absl::MutexLock lock(&status_mutex_);
  return rates_;
}

void Core::Settle() {
  // What is buried may bury more as it goes.
  while (!shared_->graveyard.empty()) std::exchange(shared_->graveyard, {}).clear();
}

bool Core::RunOnPoller(std::function<void()> task) {
  if (poller_ == nullptr) return false;
  if (poller_->OnThread()) {
    task();
    return true;
  }
  auto done = std::make_shared<Latch>();  // shared: the poller may still be inside Open when the
                                          // waiter goes on
  if (!poller_->Post([&task, done] {
        task();
        done->Open();
      })) {
    return false;
  }
  return done->Wait(absl::InfiniteDuration());
}

void Core::Drain(absl::Duration limit) {
  const absl::Time deadline = MonotonicNow() + limit;
  if (!RunOnPoller([this] { shared_->draining = true; })) return;
  for (;;) {
    bool linked = false;
    if (!RunOnPoller([this, &linked] {
          for (auto& [name, entry] : entries_) linked = linked || entry.peer->linked();
          linked = linked || shared_->streams.parting();
        })) {
      return;
    }
    if (!linked || MonotonicNow() >= deadline) return;
    absl::SleepFor(kDrainPoll);
  }
}

void Core::Stop() {
  if (!started_ || stopped_) return;
  Status();  // the last one, kept
  stopped_ = true;
  RunOnPoller([this] {
    shared_->draining = true;
    for (auto& [name, entry] : entries_) entry.peer->Stop();
    if (greeter_ != nullptr) greeter_->Stop();
    if (tunnels_ != nullptr) tunnels_->End();
    if (relay_ != nullptr) relay_->End("", absl::CancelledError("this gateway stopped"));
    shared_->streams.CancelAll();
  });
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  const absl::Time patience = MonotonicNow() + kStopPatience;
  // Every operation returns once cancelled; new streams can no longer come.
  for (bool empty = false; !empty;) {
    RunOnPoller([this, &empty, patience] {
      shared_->streams.CancelAll();
      // Channels that connect get the time to finish (ChannelKeeper), but not for ever.
      const bool connecting = shared_->channels.Sweep() > 0 && MonotonicNow() < patience;
      empty = shared_->streams.empty() && !connecting;
    });
    if (!empty) absl::SleepFor(kDrainPoll);
  }
  poller_->Shutdown();
  if (tunnels_ != nullptr) tunnels_->StopWaiter();
  Settle();
  for (auto& [name, entry] : entries_) entry.peer.reset();
  greeter_.reset();
}

Core::Entry* Core::Find(const std::string& peer) {
  auto found = entries_.find(peer);
  return found == entries_.end() ? nullptr : &found->second;
}

absl::StatusOr<Core::Entry*> Core::FindLinked(const std::string& peer) {
  Entry* entry = Find(peer);
  if (entry == nullptr)
    return absl::NotFoundError(absl::StrCat("cluster ", peer, " is not a configured peer"));
  if (entry->front.link == 0)
    return absl::UnavailableError(absl::StrCat("no link to cluster ", peer));
  return entry;
}

absl::Status Core::SendRunMessage(const std::string& peer, const wan::v1::RunMessage& message) {
  absl::StatusOr<Entry*> entry = FindLinked(peer);
  if (!entry.ok()) return entry.status();
  PeerFront& front = (*entry)->front;
  const uint64_t link = front.link;
  std::string bytes = EncodeRunMessage(message);
  const size_t size = bytes.size();
  if (size > kControlFrameBytesMax) {
    return Invalid(absl::StrCat("a run message of ", size, " bytes is above the limit of ",
                                kControlFrameBytesMax));
  }
  if (front.control_bytes.fetch_add(size) + size > kControlQueueBytesMax) {
    front.control_bytes -= size;
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kControlQueueBytesMax,
                                                     " bytes of messages wait for cluster ", peer));
  }
  Peer* target = (*entry)->peer.get();
  if (!poller_->Post([target, link, frame = ToByteBuffer(std::move(bytes))]() mutable {
        target->SendRunMessage(link, std::move(frame));
      })) {
    return absl::UnavailableError("the transport is stopped");
  }
  return absl::OkStatus();
}

absl::Status Core::SendChunk(const std::string& peer, const ChunkHeader& header,
                             memory::SharedBuffer payload, uint64_t priority) {
  absl::StatusOr<Entry*> entry = FindLinked(peer);
  if (!entry.ok()) return entry.status();
  if (payload.size() > kChunkBytesMax || header.run.empty() || header.run.size() > kNameBytesMax ||
      header.epoch.candidate.size() > kNameBytesMax) {
    return Invalid(absl::StrCat("a chunk of ", payload.size(), " bytes for run '", header.run,
                                "' is above a limit (", kChunkBytesMax, " bytes, names of ",
                                kNameBytesMax, ") or names no run"));
  }
  PeerFront& front = (*entry)->front;
  const uint64_t link = front.link;
  if (front.chunks.fetch_add(1) + 1 > kChunksQueuedMax) {
    --front.chunks;
    return absl::ResourceExhaustedError(
        absl::StrCat(kChunksQueuedMax, " chunks wait for cluster ", peer, " already"));
  }
  OutgoingChunk chunk;
  chunk.header = header;
  chunk.payload = std::move(payload);
  chunk.priority = priority;
  Peer* target = (*entry)->peer.get();
  if (!poller_->Post([target, link, chunk = std::move(chunk)]() mutable {
        target->SendChunk(link, std::move(chunk));
      })) {
    return absl::UnavailableError("the transport is stopped");
  }
  return absl::OkStatus();
}

void Core::CancelChunks(const std::string& peer, std::function<bool(const ChunkHeader&)> matches) {
  Entry* entry = Find(peer);
  if (entry == nullptr || poller_ == nullptr) return;
  poller_->Post([target = entry->peer.get(), matches = std::move(matches)] {
    target->CancelChunks(matches);
  });
}

absl::Status Core::NoteWindow(Entry& entry, const std::string& run, uint64_t bytes) {
  absl::MutexLock lock(&windows_mutex_);
  auto found = entry.windows.find(run);
  if (found != entry.windows.end()) {
    windows_bytes_ -= found->second;
    entry.windows.erase(found);
  }
  if (bytes != 0) {
    if (entry.windows.size() >= static_cast<size_t>(kRunsPerPeerMax)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kRunsPerPeerMax, " runs have windows for one peer already"));
    }
    entry.windows[run] = bytes;
    windows_bytes_ += bytes;
  }
  quota_.Resize(QuotaBytes(windows_bytes_));
  return absl::OkStatus();
}

absl::Status Core::SetWindow(const std::string& peer, const std::string& run, uint64_t bytes) {
  Entry* entry = Find(peer);
  if (entry == nullptr)
    return absl::NotFoundError(absl::StrCat("cluster ", peer, " is not a configured peer"));
  if (run.empty() || run.size() > kNameBytesMax)
    return Invalid("window: the run's name is empty or too long");
  if (bytes != 0 && (bytes < kWindowBytesMin || bytes > kWindowBytesMax)) {
    return Invalid(absl::StrCat("window of ", bytes, " bytes for run ", run, " is outside ",
                                kWindowBytesMin, " to ", kWindowBytesMax));
  }
  if (absl::Status noted = NoteWindow(*entry, run, bytes); !noted.ok()) return noted;
  if (poller_ == nullptr ||
      !poller_->Post([target = entry->peer.get(), run, bytes] { target->SetWindow(run, bytes); })) {
    return absl::UnavailableError("the transport is not running");
  }
  return absl::OkStatus();
}

void Core::ReturnCredit(const std::string& peer, const std::string& run, uint64_t payload_bytes) {
  Entry* entry = Find(peer);
  if (entry == nullptr || poller_ == nullptr) return;
  poller_->Post([target = entry->peer.get(), run, payload_bytes] {
    target->ReturnCredit(run, payload_bytes);
  });
}

void Core::Disconnect(const std::string& peer, const absl::Status& reason, absl::Duration pause) {
  Entry* entry = Find(peer);
  if (entry == nullptr || poller_ == nullptr) return;
  poller_->Post([this, target = entry->peer.get(), peer, reason, pause] {
    target->Disconnect(reason, MonotonicNow() + pause);
    if (relay_ != nullptr) relay_->End(peer, reason);
  });
}

TransportStatus Core::StatusOnPoller() {
  TransportStatus status;
  const absl::Time now = MonotonicNow();
  shared_->tcp.Refresh(now, kTcpStatusAge);
  if (port_ != 0) status.listening = absl::StrCat(config_.listen, " (port ", port_, ")");
  if (greeter_ != nullptr) {
    status.streams_refused = greeter_->refused();
    status.streams_pending = greeter_->pending();
  }
  if (relay_ != nullptr) status.relayed = relay_->Status();
  for (auto& [name, entry] : entries_) status.peers.push_back(entry.peer->Status(now));
  return status;
}

TransportStatus Core::Status() {
  if (poller_ != nullptr && poller_->OnThread()) return StatusOnPoller();
  auto answered = std::make_shared<Latch>();  // outlives a caller that left
  if (poller_ != nullptr && poller_->Post([this, answered] {
        TransportStatus status = StatusOnPoller();
        {
          absl::MutexLock lock(&status_mutex_);
          last_status_ = std::move(status);
        }
        answered->Open();
      })) {
    answered->Wait(kStatusWait);
  }
  absl::MutexLock lock(&status_mutex_);
  return last_status_;
}

}  // namespace causeway::transport
