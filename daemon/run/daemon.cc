// Opening and closing. Destruction order is the reverse of the members': doors first, loop last.
#include "daemon/run/daemon.h"

#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/config/derived.h"
#include "daemon/gpu/choice.h"
#include "daemon/gpu/open.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/incarnation.h"
#include "daemon/run/version.h"
#include "security/tls_observer.h"
#include "security/tls_policy.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr int64_t kTickUs = 1'000'000;
constexpr int64_t kDrainCheckUs = 50'000;

int64_t UnixSeconds() { return static_cast<int64_t>(::time(nullptr)); }

// Ascends over restarts of the process: nanoseconds of the wall clock.
uint64_t NewIncarnation() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(const config::Config& config,
                                                       const std::string& config_path,
                                                       observe::Logger* log) {
  auto daemon = std::unique_ptr<Daemon>(new Daemon(config, config_path, log));
  if (absl::Status opened = daemon->Open(); !opened.ok()) return opened;
  return daemon;
}

Daemon::Daemon(const config::Config& config, std::string config_path, observe::Logger* log)
    : config_(config),
      config_path_(std::move(config_path)),
      log_(log),
      incarnation_(NewIncarnation()),
      started_us_(loop::Now()) {}

Daemon::~Daemon() {
  closing_ = true;
  watchdog_.reset();
  admin_.reset();
  metrics_server_.reset();
  if (loop_) loop_->Close();
  if (transport_) transport_->Stop();
  trainers_.reset();
  runs_.clear();
  workers_.reset();
}

absl::Status Daemon::Open() {
  absl::StatusOr<std::unique_ptr<loop::Loop>> loop = loop::Loop::Create();
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  for (int signal : {SIGTERM, SIGINT}) {
    const absl::Status watched =
        loop_->WatchSignal(signal, [this, signal] { BeginDrain(::strsignal(signal)); });
    if (!watched.ok()) return watched;
  }
  if (absl::Status watched = loop_->WatchSignal(SIGHUP, [this] { OnReloadSignal(); });
      !watched.ok()) {
    return watched;
  }
  ::signal(SIGPIPE, SIG_IGN);
  for (auto step : {&Daemon::OpenMemory, &Daemon::OpenGpu, &Daemon::OpenState,
                    &Daemon::OpenTransport, &Daemon::OpenRuns, &Daemon::OpenDoors}) {
    if (absl::Status status = (this->*step)(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenMemory() {
  const auto bytes = static_cast<uint64_t>(config_.memory_bytes);
  budget_ = memory::Budget::Create(bytes);
  absl::StatusOr<std::shared_ptr<memory::Account>> account = budget_->Open("chunks");
  if (!account.ok()) return account.status();
  buffers_ = std::make_unique<memory::BufferPool>(budget_, *std::move(account), bytes / 4);
  metrics_.memory_budget_bytes.With({}).Set(static_cast<double>(bytes));
  metrics_.start_time_seconds.With({}).Set(static_cast<double>(UnixSeconds()));
  metrics_.build_info.With({kVersion, __VERSION__}).Set(1);
  return absl::OkStatus();
}

absl::Status Daemon::OpenGpu() {
  static_assert(static_cast<int>(config::Gpu::kRequired) == static_cast<int>(gpu::Use::kRequired));
  static_assert(static_cast<int>(config::Gpu::kOff) == static_cast<int>(gpu::Use::kOff));
  absl::StatusOr<std::shared_ptr<memory::Account>> account = budget_->Open("gpu");
  if (!account.ok()) return account.status();
  std::vector<compression::CodecSpec> codecs;
  for (const config::Run& run : config_.runs) {
    const std::vector<compression::CodecSpec> ladder = LadderOf(run.codec);
    codecs.insert(codecs.end(), ladder.begin(), ladder.end());
  }
  absl::StatusOr<gpu::Choice> choice =
      gpu::Choose(static_cast<gpu::Use>(config_.gpu), codecs, [&] { return gpu::Open(*account); });
  if (!choice.ok()) return choice.status();
  gpu_ = choice->codec;
  log_->Info(event::kGpu, {{"used", gpu_ != nullptr}}, choice->text);
  return absl::OkStatus();
}

absl::Status Daemon::OpenTransport() {
  if (absl::Status tls = security::RequireTls13(); !tls.ok()) return tls;
  absl::StatusOr<std::unique_ptr<security::TlsObserver>> observer =
      security::TlsObserver::Create([this](const security::TlsFailure& failure) {
        if (credentials_) credentials_->NoteTlsFailure(failure);
      });
  if (!observer.ok()) return observer.status();
  tls_observer_ = *std::move(observer);

  security::Credentials::Options options;
  options.cluster = config_.cluster;
  options.domain = config_.domain;
  options.files = {config_.tls.certificate, config_.tls.key, config_.tls.authority};
  for (const config::Peer& peer : config_.peers) options.peers.push_back(peer.cluster);
  for (const std::string& spki : config_.tls.denied_spki_sha256) {
    options.deny.spki_sha256.insert(spki);
  }
  options.now_s = UnixSeconds;
  options.on_rejection = [this](const security::HandshakeRejection& rejection) {
    log_->Warning(event::kHandshakeRejected,
                  {{"address", rejection.peer_address},
                   {"identity", rejection.identity},
                   {"dialled", rejection.dialled},
                   {"result", security::HandshakeResultName(rejection.result)},
                   {"spki_sha256", rejection.spki_sha256}},
                  rejection.reason);
  };
  absl::StatusOr<std::unique_ptr<security::Credentials>> credentials =
      security::Credentials::Load(std::move(options));
  if (!credentials.ok()) return credentials.status();
  credentials_ = *std::move(credentials);
  for (const std::string& warning : credentials_->Warnings()) {
    log_->Warning(event::kCertificateExpires, {}, warning);
  }
  metrics_.certificate_not_after.With({"gateway"})
      .Set(static_cast<double>(credentials_->certificate().not_after_s));

  transport::TransportConfig transport;
  transport.cluster = config_.cluster;
  transport.incarnation = incarnation_;
  transport.software = absl::StrCat("causeway ", kVersion);
  transport.listen = config_.listen;
  transport.server_credentials = credentials_->server();
  for (const config::Peer& peer : config_.peers) {
    auto channel = credentials_->channel(peer.cluster);
    if (!channel.ok()) return channel.status();
    transport::PeerConfig& made = transport.peers.emplace_back();
    made.cluster = peer.cluster;
    made.address = peer.address;
    made.credentials = *channel;
    made.relay = peer.relay;
    made.rate_limit_bits = static_cast<uint64_t>(peer.rate_limit_bits);
  }
  transport.relay = config_.relay;
  transport.advertise = config_.advertise;
  transport.identity = [this](const grpc::AuthContext& context,
                              const std::string& remote) -> absl::StatusOr<std::string> {
    absl::StatusOr<security::AuthenticatedPeer> peer = credentials_->Authenticate(context, remote);
    if (!peer.ok()) return peer.status();
    metrics_.certificate_not_after.With({peer->cluster})
        .Set(static_cast<double>(peer->certificate.not_after_s));
    const std::string cluster = peer->cluster;
    absl::MutexLock lock(&certificates_mutex_);
    authenticated_[cluster] = *std::move(peer);
    return cluster;
  };
  transport.lanes = config_.lanes;
  transport.lanes_total_max = config::kLanesTotalMax;
  transport.peer_timeout = absl::Milliseconds(config_.peer_timeout_ms);
  absl::StatusOr<std::unique_ptr<transport::Transport>> made =
      transport::Transport::Create(std::move(transport), buffers_.get(), this);
  if (!made.ok()) return made.status();
  transport_ = *std::move(made);
  return absl::OkStatus();
}

Surroundings Daemon::Around() {
  Surroundings out;
  out.config = &config_;
  out.incarnation = incarnation_;
  out.loop = loop_.get();
  out.workers = workers_.get();
  out.buffers = buffers_.get();
  out.budget = budget_.get();
  out.transport = transport_.get();
  out.log = log_;
  out.metrics = &metrics_;
  out.gpu = gpu_;
  out.device_failed = [this](const absl::Status& status) { OnDeviceFailed(status); };
  out.find_session = [this](uint64_t id) { return trainers_ ? trainers_->Find(id) : nullptr; };
  return out;
}

absl::Status Daemon::OpenState() {
  const std::string& directory = config_.state_directory;
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make state_directory ", directory));
  }
  absl::StatusOr<std::unique_ptr<checkpoint::StateLock>> lock =
      checkpoint::StateLock::Take(directory);
  if (!lock.ok()) return lock.status();
  state_lock_ = *std::move(lock);
  absl::StatusOr<uint64_t> incarnation = NextIncarnation(directory, incarnation_);
  if (!incarnation.ok()) return incarnation.status();
  incarnation_ = *incarnation;
  return absl::OkStatus();
}

absl::Status Daemon::OpenRuns() {
  workers_ = std::make_unique<work::WorkerPool>(config_.workers);
  for (const config::Run& run : config_.runs) {
    absl::StatusOr<std::unique_ptr<Run>> made = Run::Create(Around(), run);
    if (!made.ok()) return made.status();
    runs_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenDoors() {
  if (absl::Status started = transport_->Start(); !started.ok()) return started;
  for (std::unique_ptr<Run>& run : runs_) run->OnTransportStarted();
  credentials_->SetListeningPort(static_cast<uint16_t>(transport_->port()));

  trainers::Config trainers;
  trainers.cluster = config_.cluster;
  trainers.incarnation = incarnation_;
  trainers.socket_path = config_.trainers.socket;
  trainers.group = config_.trainers.group;
  trainers.mode = config_.trainers.mode;
  trainers.resume_timeout_us = config_.peer_timeout_ms * 1000;
  absl::StatusOr<std::unique_ptr<trainers::TrainerService>> service =
      trainers::TrainerService::Create(*loop_, std::move(trainers), *this);
  if (!service.ok()) return service.status();
  trainers_ = *std::move(service);

  absl::StatusOr<std::unique_ptr<admin::AdminService>> admin =
      admin::AdminService::Start(config_.admin_socket, config_.admin_group, *this);
  if (!admin.ok()) return admin.status();
  admin_ = *std::move(admin);

  if (!config_.metrics_listen.empty()) {
    absl::StatusOr<std::unique_ptr<observe::MetricsServer>> server =
        observe::MetricsServer::Start(metrics_, config_.metrics_listen);
    if (!server.ok()) return server.status();
    metrics_server_ = *std::move(server);
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- serving and draining

absl::Status Daemon::Serve() {
  watchdog_ = std::make_unique<notify::Watchdog>(
      notify::WatchdogInterval(), std::vector<const notify::Heartbeat*>{&loop_heartbeat_},
      notifier_, [this](const std::string& name) {
        log_->Error(event::kWatchdogStalled, {{"loop", name}}, "stands still");
      });
  log_->Info(event::kDaemonReady,
             {{"cluster", config_.cluster},
              {"listen", transport_->Status().listening},
              {"trainers", config_.trainers.socket},
              {"runs", runs_.size()}},
             "listening");
  notifier_.Ready(StatusLine());
  Tick();
  loop_->Run();
  // Nobody serves the loop any more: who posts to it must not wait for room, or draining would not
  // end.
  closing_ = true;
  loop_->Close();
  notifier_.ExtendTimeout(std::chrono::milliseconds(2 * config_.peer_timeout_ms));
  transport_->Drain(absl::Milliseconds(config_.peer_timeout_ms / 2));
  log_->Info(event::kDaemonStopped, {{"cluster", config_.cluster}}, "stopped");
  return device_failure_;
}

// An error of CUDA's lasts as long as the process that met it: no later call on that device would
// succeed, for any run. The service manager starts another, which tries the device before it uses
// it; the trainer finds it as after any restart, and submits again from where it can.
void Daemon::OnDeviceFailed(const absl::Status& status) {
  if (!device_failure_.ok()) return;
  device_failure_ = absl::UnavailableError(absl::StrCat(gpu_->Name(), ": ", status.message()));
  log_->Error(
      event::kGpuFailed, {{"gpu", gpu_->Name()}},
      absl::StrCat(status.message(), "; the submission that lies there cannot be read, and ",
                   "this process ends, since CUDA's errors last as long as it; `gpu: off` "
                   "does without the device"));
  loop_->Stop();
}

void Daemon::BeginDrain(const char* signal) {
  if (draining_) {
    loop_->Stop();  // asked twice: at once
    return;
  }
  draining_ = true;
  drain_until_us_ = loop::Now() + config_.peer_timeout_ms * 1000;
  log_->Info(event::kDaemonDraining, {{"signal", signal}},
             "no new work; open operations end first");
  notifier_.Stopping("draining");
  trainers_->StopListening();
  for (std::unique_ptr<Run>& run : runs_) run->BeginDrain();
  CheckDrained();
}

void Daemon::CheckDrained() {
  bool drained = true;
  for (std::unique_ptr<Run>& run : runs_) drained = drained && run->Drained();
  if (drained || loop::Now() >= drain_until_us_) {
    loop_->Stop();
    return;
  }
  loop_->After(kDrainCheckUs, [this] { CheckDrained(); });
}

void Daemon::Tick() {
  loop_heartbeat_.Beat();
  for (const transport::PeerStatus& peer : transport_->Status().peers) {
    const bool up = peer.state == transport::PeerState::kUp;
    metrics_.peer_up.With({peer.cluster}).Set(up ? 1 : 0);
    metrics_.peer_rtt_seconds.With({peer.cluster}).Set(absl::ToDoubleSeconds(peer.rtt));
    metrics_.peer_lanes.With({peer.cluster}).Set(peer.lanes_up);
    metrics_.chunk_bytes.With({peer.cluster, "sent"})
        .RaiseTo(static_cast<double>(peer.payload_bytes_sent));
    metrics_.chunk_bytes.With({peer.cluster, "received"})
        .RaiseTo(static_cast<double>(peer.payload_bytes_received));
    metrics_.chunk_retransmits.With({peer.cluster})
        .RaiseTo(static_cast<double>(peer.chunks_resent));
    metrics_.chunk_retransmit_bytes.With({peer.cluster})
        .RaiseTo(static_cast<double>(peer.bytes_resent));
    metrics_.in_flight_bytes.With({peer.cluster})
        .Set(static_cast<double>(peer.bytes_unacknowledged));
  }
  for (const transport::PeerRates& rates : transport_->Rates()) {
    metrics_.peer_bytes_per_second.With({rates.cluster, "sent"}).Set(rates.send.bytes_per_s);
    metrics_.peer_bytes_per_second.With({rates.cluster, "received"}).Set(rates.receive.bytes_per_s);
  }
  JudgePeers();
  CountHandshakes();
  for (const memory::Usage& usage : budget_->accounts()) {
    metrics_.memory_used_bytes.With({usage.name}).Set(static_cast<double>(usage.used_bytes));
  }
  metrics_.log_lines_dropped.With({}).RaiseTo(static_cast<double>(log_->lines_dropped()));
  for (std::unique_ptr<Run>& run : runs_) run->Tick();
  if (!draining_) notifier_.Status(StatusLine());
  loop_->After(kTickUs, [this] { Tick(); });
}

void Daemon::CountHandshakes() {
  const security::HandshakeCounts counts = credentials_->counts();
  uint64_t accepted = 0;
  uint64_t rejected = 0;
  for (int result = 0; result < security::kHandshakeResults; ++result) {
    const bool good =
        static_cast<security::HandshakeResult>(result) == security::HandshakeResult::kAccepted;
    (good ? accepted : rejected) += counts.accepting[result] + counts.dialling[result];
  }
  metrics_.tls_handshakes.With({"accepted"}).RaiseTo(static_cast<double>(accepted));
  metrics_.tls_handshakes.With({"rejected"}).RaiseTo(static_cast<double>(rejected));
}

std::string Daemon::StatusLine() {
  int up = 0;
  int known = 0;
  for (const transport::PeerStatus& peer : transport_->Status().peers) {
    ++known;
    if (peer.state == transport::PeerState::kUp) ++up;
  }
  return absl::StrFormat("%d of %d peers up, %d runs, %d trainers", up, known, runs_.size(),
                         trainers_->Sessions().size());
}

Run* Daemon::FindRun(const std::string& name) {
  for (std::unique_ptr<Run>& run : runs_) {
    if (run->name() == name) return run.get();
  }
  return nullptr;
}

void Daemon::OnLoop(std::function<void()> function) {
  if (!closing_) loop_->Post(std::move(function));
}

}  // namespace causeway::run
