// Recorder: a TransportListener that notes what it is told, and Gateway: a transport with
// everything it needs. Tests wait for conditions, bounded by kPatience; nothing depends on how long
// something takes.
#ifndef CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RECORDER_H_
#define CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RECORDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/transport/transport.h"

namespace causeway::transport {

inline constexpr absl::Duration kPatience = absl::Seconds(60);

struct ChunkNote {
  ChunkHeader header;
  size_t bytes = 0;
  bool intact = false;  // the payload is what FillPayload made of its header
};

// A payload that says which chunk it is of.
void FillPayload(const ChunkHeader& header, absl::Span<std::byte> payload);
bool CheckPayload(const ChunkHeader& header, absl::Span<const std::byte> payload);

class Recorder final : public TransportListener {
 public:
  struct Notes {
    std::map<std::string, uint64_t> up;  // incarnation of linked peers
    std::vector<LinkInfo> links;
    std::vector<absl::Status> downs;
    std::vector<std::pair<std::string, uint32_t>> messages;  // run, fragment of their Ready
    std::vector<absl::Time> message_times;
    std::vector<ChunkNote> chunks;
    std::vector<std::pair<ChunkHeader, absl::Status>> done;
    std::vector<absl::Status> refused;
    std::vector<absl::Status> lanes_broken;
    int progress = 0;
    std::vector<std::string> faults;  // promises of the interface that were broken
  };

  // Called for each chunk, on the poller thread, with its payload; may keep it. Set before Start.
  std::function<void(const std::string& peer, const ChunkHeader&, memory::Buffer)> on_chunk;
  std::function<void(const std::string& peer)> on_up;

  // False after kPatience.
  bool Wait(const std::function<bool(const Notes&)>& condition);
  Notes notes();
  void Clear();  // forgets all but who is linked

  void OnPeerUp(const std::string& peer, uint64_t incarnation, const LinkInfo& info) override;
  void OnPeerDown(const std::string& peer, const absl::Status& reason) override;
  void OnRunMessage(const std::string& peer, wan::v1::RunMessage&& message) override;
  void OnChunk(const std::string& peer, const ChunkHeader& header, memory::Buffer payload) override;
  void OnChunkDone(const std::string& peer, const ChunkHeader& header,
                   const absl::Status& status) override;
  void OnProgress(const std::string& peer) override;
  void OnLaneBroken(const std::string& peer, int lane, const absl::Status& reason) override;
  void OnRefused(const std::string& remote, const std::string& peer,
                 const absl::Status& reason) override;

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  Notes notes_;
};

// A transport on loopback in clear; the identity of whoever calls is `believed_peer`.
class Gateway {
 public:
  Gateway(std::string cluster, std::string believed_peer, uint64_t incarnation = 1);
  ~Gateway();

  // Change before Start.
  TransportConfig config;
  uint64_t budget_bytes = uint64_t{256} << 20;
  uint64_t cached_bytes = uint64_t{32} << 20;
  Recorder recorder;

  void AddPeer(const std::string& cluster, const std::string& address);  // empty: never dials
  void Start();                                                          // fails the test on error
  void Stop();
  Transport& transport() { return *transport_; }
  std::string address() const;  // to dial it
  memory::BufferPool& pool() { return *pool_; }
  memory::Budget& budget() { return *budget_; }

  bool WaitUp(const std::string& peer);
  bool WaitLanes(const std::string& peer, int lanes);
  bool WaitStatus(const std::string& peer, const std::function<bool(const PeerStatus&)>& condition);
  PeerStatus Peer(const std::string& peer);

  // Chunk `index` of fragment 0, round `round`, with a payload made by FillPayload.
  absl::Status SendChunk(const std::string& peer, const std::string& run, int64_t round,
                         uint32_t index, size_t bytes, uint64_t priority = 0);
  absl::Status SendLongMessage(const std::string& peer, const std::string& run, size_t bytes);
  absl::Status SendReady(const std::string& peer, const std::string& run, uint32_t fragment);

 private:
  std::shared_ptr<memory::Budget> budget_;
  std::unique_ptr<memory::BufferPool> pool_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_TESTS_INTEGRATION_TRANSPORT_RECORDER_H_
