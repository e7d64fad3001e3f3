// The gateway: builds everything that a configuration asks for, connects it, and ends it in order.
//
// One control thread runs the event loop; it owns runs, sessions and engines. The transport's
// poller, the admin service and the trainers' socket hand their events to it. See ARCHITECTURE.md
// for the picture.
#ifndef CAUSEWAY_DAEMON_RUN_DAEMON_H_
#define CAUSEWAY_DAEMON_RUN_DAEMON_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/admin/service.h"
#include "daemon/checkpoint/state_lock.h"
#include "daemon/config/config.h"
#include "daemon/gpu/gpu_codec.h"
#include "daemon/loop/loop.h"
#include "daemon/memory/budget.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/notify/notify.h"
#include "daemon/observe/log.h"
#include "daemon/observe/metrics.h"
#include "daemon/run/run.h"
#include "daemon/trainers/service.h"
#include "daemon/transport/transport.h"
#include "daemon/work/worker_pool.h"
#include "security/credentials.h"

namespace causeway::run {

class Daemon final : private trainers::TrainerListener,
                     private transport::TransportListener,
                     private admin::StatusProvider {
 public:
  // Everything is open and listening when it returns. Errors name the file, address or limit.
  // Call on the thread that will call Serve, before any other thread starts (signals are blocked
  // here). `config_path` is read again at SIGHUP.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(const config::Config& config,
                                                        const std::string& config_path,
                                                        observe::Logger* log);
  ~Daemon() override;

  // Serves until SIGTERM or SIGINT, then drains: open operations end, within a bound, and peers are
  // told. Otherwise UNAVAILABLE: the GPU failed; another process may find it well.
  absl::Status Serve();

 private:
  Daemon(const config::Config& config, std::string config_path, observe::Logger* log);
  absl::Status Open();
  absl::Status OpenMemory();
  absl::Status OpenGpu();
  absl::Status OpenTransport();
  absl::Status OpenState();
  absl::Status OpenRuns();
  absl::Status OpenDoors();
  Surroundings Around();

  void OnDeviceFailed(const absl::Status& status);
  void BeginDrain(const char* signal);
  void CheckDrained();
  void Tick();  // once a second: metrics, status line
  void CountHandshakes();
  void OnReloadSignal();
  absl::Status Reload();
  void JudgePeers();  // ends links to those that are not allowed any more
  std::string StatusLine();
  Run* FindRun(const std::string& name);
  template <typename Function>
  void ForRunsOf(const std::string& peer, Function function);
  void OnLoop(std::function<void()> function);

  // ---- trainers::TrainerListener
  std::optional<trainers::Problem> OnHello(trainers::Session& session) override;
  void OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
              schema::Schema schema) override;
  void OnShare(trainers::Session& session, const trainers::ShareRequest& request,
               loop::Descriptor memory) override;
  void OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
               std::vector<local::SliceRecord> slices) override;
  void OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) override;
  void OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) override;
  void OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op) override;
  void OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session,
               uint64_t op) override;
  void OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op) override;
  void OnFinish(trainers::Session& session, uint64_t sequence) override;
  void OnTurnedAway(const absl::Status& reason) override;
  void OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail) override;

  // ---- transport::TransportListener (poller thread)
  void OnPeerUp(const std::string& peer, uint64_t incarnation,
                const transport::LinkInfo& info) override;
  void OnPeerDown(const std::string& peer, const absl::Status& reason) override;
  void OnRunMessage(const std::string& peer, wan::v1::RunMessage&& message) override;
  void OnChunk(const std::string& peer, const transport::ChunkHeader& header,
               memory::Buffer payload) override;
  void OnChunkDone(const std::string& peer, const transport::ChunkHeader& header,
                   const absl::Status& status) override;
  void OnLaneBroken(const std::string& peer, int lane, const absl::Status& reason) override;
  void OnProgress(const std::string& peer) override;
  void OnRefused(const std::string& remote, const std::string& peer,
                 const absl::Status& reason) override;

  // ---- admin::StatusProvider (gRPC threads)
  absl::Status FillStatus(admin::v1::StatusReply* reply) override;
  absl::StatusOr<std::string> ChangeRun(const admin::v1::ChangeRunRequest& request) override;

  const config::Config config_;
  const std::string config_path_;
  observe::Logger* const log_;
  std::unique_ptr<checkpoint::StateLock> state_lock_;
  uint64_t incarnation_;  // fixed once the state directory is open
  const int64_t started_us_;

  std::unique_ptr<loop::Loop> loop_;
  observe::Metrics metrics_;
  std::shared_ptr<memory::Budget> budget_;  // shared with accounts that outlive their users
  std::unique_ptr<memory::BufferPool> buffers_;
  std::shared_ptr<gpu::GpuCodec> gpu_;  // shared with endpoints; null: the CPU does everything
  std::unique_ptr<security::TlsObserver> tls_observer_;
  std::unique_ptr<security::Credentials> credentials_;
  absl::Mutex certificates_mutex_;
  // By peer; set where identities are proven (poller thread), read for status.
  std::map<std::string, security::AuthenticatedPeer> authenticated_
      ABSL_GUARDED_BY(certificates_mutex_);
  std::unique_ptr<work::WorkerPool> workers_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::unique_ptr<trainers::TrainerService> trainers_;
  std::unique_ptr<admin::AdminService> admin_;
  std::unique_ptr<observe::MetricsServer> metrics_server_;

  notify::Notifier notifier_;
  notify::Heartbeat loop_heartbeat_{"control loop"};
  std::unique_ptr<notify::Watchdog> watchdog_;
  absl::Status device_failure_;  // ends Serve
  bool draining_ = false;
  int64_t drain_until_us_ = 0;
  std::atomic<bool> closing_{false};
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_DAEMON_H_
