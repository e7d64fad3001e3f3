// The gateways' own transport, with certificates, between two processes that do nothing else.
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "daemon/memory/budget.h"
#include "daemon/transport/transport.h"
#include "proto/wan.pb.h"
#include "security/credentials.h"
#include "security/tls_policy.h"
#include "tests/bench/transport/bench_end.h"

namespace causeway::bench {
namespace {

constexpr char kRun[] = "bench";
// Sent and not acknowledged, or waiting for the line: beyond what any measured path holds.
constexpr uint64_t kAheadBytes = 48 << 20;
constexpr uint32_t kEchoed = 1;  // of a ping's fragment: set in the answer
constexpr absl::Duration kSendLimit = absl::Minutes(2);
constexpr absl::Duration kNoLinkPause = absl::Milliseconds(10);
constexpr absl::Duration kPingLimit = absl::Seconds(30);

class LanesEnd final : public BenchEnd, private transport::TransportListener {
 public:
  explicit LanesEnd(const Options& options)
      : options_(options),
        budget_(memory::Budget::Create(options.memory_bytes)),
        pool_(budget_, *budget_->Open("chunks"), options.memory_bytes) {}

  ~LanesEnd() override {
    StopSending();
    if (transport_ != nullptr) transport_->Stop();
  }

  absl::Status Open() {
    if (absl::Status tls = security::RequireTls13(); !tls.ok()) return tls;
    security::Credentials::Options wanted;
    wanted.cluster = options_.cluster;
    wanted.files = {options_.pki + "/gateway.pem", options_.pki + "/gateway.key",
                    options_.pki + "/ca.pem"};
    wanted.peers = {options_.peer};
    wanted.now_s = [] { return absl::ToUnixSeconds(absl::Now()); };
    auto credentials = security::Credentials::Load(std::move(wanted));
    if (!credentials.ok()) return credentials.status();
    credentials_ = *std::move(credentials);
    transport::TransportConfig config;
    config.cluster = options_.cluster;
    config.incarnation = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
    config.software = "bench";
    config.listen = options_.listen;
    config.server_credentials = credentials_->server();
    transport::PeerConfig& peer = config.peers.emplace_back();
    peer.cluster = options_.peer;
    peer.address = options_.dial;
    auto channel = credentials_->channel(options_.peer);
    if (!channel.ok()) return channel.status();
    peer.credentials = *std::move(channel);
    config.identity = [this](const grpc::AuthContext& auth,
                             const std::string& remote) -> absl::StatusOr<std::string> {
      auto proven = credentials_->Authenticate(auth, remote);
      if (!proven.ok()) return proven.status();
      return proven->cluster;
    };
    config.lanes = options_.lanes;
    auto made = transport::Transport::Create(std::move(config), &pool_, this);
    if (!made.ok()) return made.status();
    transport_ = *std::move(made);
    if (absl::Status started = transport_->Start(); !started.ok()) return started;
    return transport_->SetWindow(options_.peer, kRun, options_.window_bytes);
  }

  bool Up() override {
    const transport::PeerStatus status = Status();
    return status.lanes_up > 0 && status.lanes_up == status.lanes_wanted;
  }

  void StartSending() override {
    if (sending_.exchange(true)) return;
    sender_ = std::thread([this] { SendUntilStopped(); });
  }

  void StopSending() override {
    if (!sending_.exchange(false)) return;
    {
      absl::MutexLock lock(&mutex_);
      changed_.SignalAll();
    }
    sender_.join();
    transport_->CancelChunks(options_.peer, [](const transport::ChunkHeader&) { return true; });
  }

  Counts Count() override {
    const transport::PeerStatus status = Status();
    Counts counts;
    counts.bytes_received = status.payload_bytes_received;
    counts.bytes_unacknowledged = status.bytes_unacknowledged;
    counts.chunks_resent = status.chunks_resent;
    counts.bytes_resent = status.bytes_resent;
    counts.lanes_broken = status.lanes_broken;
    counts.lanes_up = static_cast<uint64_t>(status.lanes_up);
    counts.lanes_reason = status.lanes_reason;
    counts.links = status.links;
    absl::MutexLock lock(&mutex_);
    counts.down = down_;
    return counts;
  }

  absl::Duration Send(uint64_t chunks) override {
    const memory::SharedBuffer payload = Payload();
    const absl::Time begin = absl::Now();
    sending_ = true;
    for (uint64_t i = 0; i < chunks; ++i) {
      if (!SendOne(payload, static_cast<uint32_t>(i))) return absl::InfiniteDuration();
    }
    absl::MutexLock lock(&mutex_);
    const absl::Time limit = begin + kSendLimit;
    while (ahead_ > 0 && absl::Now() < limit)
      changed_.WaitWithTimeout(&mutex_, limit - absl::Now());
    sending_ = false;
    return ahead_ > 0 ? absl::InfiniteDuration() : absl::Now() - begin;
  }

  std::vector<absl::Duration> Ping(int count) override {
    std::vector<absl::Duration> trips;
    for (int i = 0; i < count; ++i) {
      const absl::Time begin = absl::Now();
      wan::v1::RunMessage message;
      message.set_run(kRun);
      message.mutable_ready()->set_round(i + 1);
      if (!transport_->SendRunMessage(options_.peer, message).ok()) break;
      absl::MutexLock lock(&mutex_);
      const absl::Time limit = begin + kPingLimit;
      while (echoed_ != i + 1 && absl::Now() < limit) {
        changed_.WaitWithTimeout(&mutex_, limit - absl::Now());
      }
      trips.push_back(absl::Now() - begin);
    }
    return trips;
  }

 private:
  transport::PeerStatus Status() {
    transport::TransportStatus status = transport_->Status();
    return status.peers.empty() ? transport::PeerStatus() : std::move(status.peers[0]);
  }

  // The bytes do not matter to anybody: one payload serves for all chunks.
  memory::SharedBuffer Payload() {
    auto buffer = pool_.Allocate(options_.chunk_bytes);
    if (!buffer.ok()) return {};
    for (std::byte& byte : buffer->span()) byte = std::byte{0x5a};
    return memory::SharedBuffer(*std::move(buffer));
  }

  // False: there is no link at the moment, or nothing is to be sent any more.
  bool SendOne(const memory::SharedBuffer& payload, uint32_t index) {
    {
      absl::MutexLock lock(&mutex_);
      while (ahead_ * options_.chunk_bytes >= kAheadBytes && sending_) changed_.Wait(&mutex_);
      if (!sending_) return false;
      ++ahead_;
    }
    transport::ChunkHeader header;
    header.run = kRun;
    header.epoch = {1, options_.cluster};
    header.incarnation = 1;
    header.index = index;
    if (transport_->SendChunk(options_.peer, header, payload, index).ok()) return true;
    absl::MutexLock lock(&mutex_);
    --ahead_;
    return false;
  }

  void SendUntilStopped() {
    const memory::SharedBuffer payload = Payload();
    for (uint32_t index = 0; sending_ && payload.size() > 0;) {
      if (SendOne(payload, index)) {
        ++index;
      } else {
        absl::MutexLock lock(&mutex_);
        if (sending_) changed_.WaitWithTimeout(&mutex_, kNoLinkPause);
      }
    }
  }

  void OnPeerUp(const std::string&, uint64_t, const transport::LinkInfo&) override {}
  void OnPeerDown(const std::string&, const absl::Status& reason) override {
    absl::MutexLock lock(&mutex_);
    down_ = absl::StrReplaceAll(reason.message(), {{"\"", "'"}});
  }
  void OnRunMessage(const std::string& peer, wan::v1::RunMessage&& message) override {
    if (message.ready().fragment() == kEchoed) {
      absl::MutexLock lock(&mutex_);
      echoed_ = message.ready().round();
      changed_.SignalAll();
      return;
    }
    message.mutable_ready()->set_fragment(kEchoed);
    transport_->SendRunMessage(peer, message).IgnoreError();  // no answer is an answer, too
  }
  void OnChunk(const std::string& peer, const transport::ChunkHeader&,
               memory::Buffer payload) override {
    if (options_.stall) {
      stalled_.push_back(std::move(payload));  // bounded by the window
      return;
    }
    const size_t bytes = payload.size();
    payload.Reset();
    transport_->ReturnCredit(peer, kRun, bytes);
  }
  void OnChunkDone(const std::string&, const transport::ChunkHeader&,
                   const absl::Status&) override {
    absl::MutexLock lock(&mutex_);
    --ahead_;
    changed_.SignalAll();
  }
  void OnProgress(const std::string&) override {}
  void OnLaneBroken(const std::string&, int, const absl::Status&) override {}
  void OnRefused(const std::string&, const std::string&, const absl::Status&) override {}

  const Options options_;
  std::shared_ptr<memory::Budget> budget_;
  memory::BufferPool pool_;
  std::unique_ptr<security::Credentials> credentials_;
  std::unique_ptr<transport::Transport> transport_;
  std::atomic<bool> sending_{false};
  std::thread sender_;
  std::vector<memory::Buffer> stalled_;  // poller thread
  absl::Mutex mutex_;
  absl::CondVar changed_;
  uint64_t ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string down_ ABSL_GUARDED_BY(mutex_);
  int64_t echoed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchEnd>> MakeLanesEnd(const Options& options) {
  auto end = std::make_unique<LanesEnd>(options);
  if (absl::Status opened = end->Open(); !opened.ok()) return opened;
  return std::unique_ptr<BenchEnd>(std::move(end));
}

}  // namespace causeway::bench
