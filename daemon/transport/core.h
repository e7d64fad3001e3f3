// Core: the Transport that everybody gets: server, poller and peers, and the border between the
// threads of the callers and the poller.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_CORE_H_
#define CAUSEWAY_DAEMON_TRANSPORT_CORE_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/transport/greeter.h"
#include "daemon/transport/peer.h"
#include "daemon/transport/poller.h"
#include "daemon/transport/shared.h"
#include "daemon/transport/transport.h"
#include "daemon/transport/tunnel_relay.h"
#include "daemon/transport/tunnels.h"

namespace causeway::transport {

class Core final : public Transport {
 public:
  Core(TransportConfig config, memory::BufferPool* pool, TransportListener* listener);
  ~Core() override;

  absl::Status Start() override;
  void Drain(absl::Duration limit) override;
  void Stop() override;
  absl::Status SendRunMessage(const std::string& peer, const wan::v1::RunMessage& message) override;
  absl::Status SendChunk(const std::string& peer, const ChunkHeader& header,
                         memory::SharedBuffer payload, uint64_t priority) override;
  void CancelChunks(const std::string& peer,
                    std::function<bool(const ChunkHeader&)> matches) override;
  absl::Status SetWindow(const std::string& peer, const std::string& run, uint64_t bytes) override;
  void ReturnCredit(const std::string& peer, const std::string& run,
                    uint64_t payload_bytes) override;
  void Disconnect(const std::string& peer, const absl::Status& reason,
                  absl::Duration pause) override;
  TransportStatus Status() override;
  std::vector<PeerRates> Rates() override;
  int port() const override { return port_; }

 private:
  // One peer from both sides of the border.
  struct Entry {
    PeerFront front;
    std::unique_ptr<Peer> peer;               // poller thread
    std::map<std::string, uint64_t> windows;  // by run; guarded by windows_mutex_
  };

  Entry* Find(const std::string& peer);
  absl::StatusOr<Entry*> FindLinked(const std::string& peer);
  void Tick();
  void Settle();
  void Gather(absl::Time now);
  TransportStatus StatusOnPoller();
  // Runs `task` on the poller thread and waits for it; false where the poller is gone.
  bool RunOnPoller(std::function<void()> task);
  absl::Status Listen();

  absl::Status NoteWindow(Entry& entry, const std::string& run, uint64_t bytes);

  const TransportConfig config_;
  grpc::ResourceQuota quota_;
  std::map<std::string, Entry> entries_;  // fixed after construction
  std::unique_ptr<grpc::AsyncGenericService> service_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<TunnelRelay> relay_;
  std::unique_ptr<Tunnels> tunnels_;  // null: no peer is behind a relay
  std::unique_ptr<Greeter> greeter_;
  std::unique_ptr<StreamAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  memory::BufferPool* const pool_;
  TransportListener* const listener_;
  int port_ = 0;
  absl::Time tcp_seen_at_ = absl::InfinitePast();  // poller thread, like the next three
  absl::Time gathered_at_ = absl::InfinitePast();
  uint64_t bytes_received_ = 0;  // by then
  uint64_t bytes_sent_ = 0;
  bool started_ = false;
  bool stopped_ = false;

  absl::Mutex windows_mutex_;
  uint64_t windows_bytes_ ABSL_GUARDED_BY(windows_mutex_) = 0;  // sum of all windows
  absl::Mutex status_mutex_;
  TransportStatus last_status_ ABSL_GUARDED_BY(status_mutex_);  // newest; for after Stop, too
  std::vector<PeerRates> rates_ ABSL_GUARDED_BY(status_mutex_);
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_CORE_H_
