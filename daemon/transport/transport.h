// Transport: the links of this gateway to its peers' gateways.
//
// A link is one control stream (hello, run messages, heartbeats, credits) and several lanes
// (chunks), each a gRPC stream on a TCP connection of its own. The transport dials, accepts,
// authenticates, keeps links alive, finds dead ones, stripes chunks over the lanes and resends
// those of a broken lane. It knows nothing of rounds: it carries names, it does not read them.
//
// Threads: the methods of Transport may be called from any thread, also from inside the listener.
// All calls to the listener come from the transport's one poller thread, never two at once, and
// must return fast: no decoding, no blocking. Ownership: the listener, the pool and the
// configuration's credentials must outlive Stop().
//
// Delivery. Within one link (from OnPeerUp to OnPeerDown) run messages arrive in order, each
// exactly once; chunks arrive exactly once in any order. When a link is lost, messages not yet sent
// are dropped and every chunk not yet acknowledged is reported by OnChunkDone with UNAVAILABLE: the
// peer may or may not hold it, so send it again on the next link if it still matters (receivers key
// chunks by their header).
//
// Credits. A receiver states per peer and run how many bytes of chunks it is willing to hold
// (SetWindow) and gives credit back as it consumes them (ReturnCredit). A sender never puts more
// than that on the wire, so a slow reader costs its sender's queue nothing but what the encoder
// already holds. PeerConfig::rate_limit_bits slows both directions. Runs that wait for the line
// share it evenly by bytes; within a run the smallest priority goes first, so a caller that passes
// when a chunk's result is due has the earliest served first.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_H_
#define CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/transport/chunk.h"
#include "daemon/transport/limits.h"
#include "daemon/transport/rates.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace causeway::wan::v1 {
class RunMessage;
}  // namespace causeway::wan::v1

namespace causeway::transport {

// The cluster that a connection's certificates prove, from either side of it. An error refuses the
// stream; its message goes into the log and, shortened, to the peer.
using IdentityExtractor = std::function<absl::StatusOr<std::string>(
    const grpc::AuthContext& context, const std::string& remote_address)>;

struct PeerConfig {
  std::string cluster;
  std::string address;  // a gRPC target such as "host:7443"; empty: this side never dials
  // For dialling this peer, made once (gRPC 1.51 aborts when credentials options are used twice).
  // Shared with the channels made from it.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // The peer through which this one is reached, where neither can dial the other; empty: directly.
  // Both ends dial the relay, which forwards the bytes of their connections unread.
  std::string relay;
  // At most this much to the peer and, by credits given slowly, from it; 0: no limit. Run messages
  // are not counted.
  uint64_t rate_limit_bits = 0;
};

struct TransportConfig {
  std::string cluster;  // this gateway's own
  uint64_t incarnation =
      0;  // of this process: new at every start, never 0; also seeds link ids and jitter
  std::string software;  // told to peers, for people
  std::string listen;    // "[::]:7443"; empty: accepts nobody
  std::shared_ptr<grpc::ServerCredentials> server_credentials;
  std::vector<PeerConfig> peers;
  // Pairs of peers whose connections this gateway forwards, each in order of names.
  std::vector<std::pair<std::string, std::string>> relay;
  std::string advertise;  // host:port told to peers; empty: none
  IdentityExtractor identity;
  int lanes = 4;              // per peer; 0: as many as the path needs
  int lanes_total_max = 128;  // over all peers, dialled and accepted, in equal shares
  absl::Duration peer_timeout =
      absl::Seconds(10);  // the knob that every other time is derived from
  uint32_t version_min = kVersionMin;
  uint32_t version_max = kVersionMax;
};

struct LinkInfo {
  uint64_t link = 0;
  uint32_t version = 0;
  bool dialled_here = false;
  std::string peer_software;
  std::string remote;  // address, for the log
};

enum class PeerState { kDown, kConnecting, kUp };

// A snapshot; counters count since Start.
struct PeerStatus {
  std::string cluster;
  std::string relay;  // through which it is reached; empty: directly
  std::string address;
  PeerState state = PeerState::kDown;
  uint64_t incarnation = 0;  // of the peer; 0 while down
  bool dialled_here = false;
  uint32_t version = 0;
  int lanes_up = 0;
  int lanes_wanted = 0;
  std::string lanes_reason;  // why this side wants how many
  absl::Duration rtt;        // smoothed; zero: not measured yet
  absl::Duration rtt_min;    // of this link
  absl::Duration silent;     // since anything arrived on the link
  std::string last_error;
  uint64_t links = 0;  // established so far
  uint64_t payload_bytes_sent = 0;
  uint64_t payload_bytes_received = 0;
  uint64_t payload_bytes_acknowledged = 0;
  uint64_t chunks_sent = 0;
  uint64_t chunks_received = 0;
  uint64_t chunks_resent = 0;  // again, after a lane broke
  uint64_t bytes_resent = 0;
  uint64_t chunks_duplicate = 0;  // received again and dropped
  uint64_t chunks_unwanted = 0;   // arrived after their run was closed here
  uint64_t lanes_broken = 0;
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t chunks_queued = 0;  // waiting for a lane or for credit
  uint64_t bytes_queued = 0;
  uint64_t chunks_unacknowledged = 0;
  uint64_t bytes_unacknowledged = 0;
  // Of the live TCP connections, from the kernel.
  int tcp_connections = 0;
  uint64_t tcp_segments_sent = 0;
  uint64_t tcp_segments_resent = 0;
  absl::Duration tcp_rtt;
  uint64_t chunks_without_memory = 0;  // times a lane waited because the pool was full
};

// Connections of one pair that this gateway forwards.
struct RelayedPair {
  std::string first;  // in order of names
  std::string second;
  int tunnels = 0;
  uint64_t bytes = 0;  // both ways, since Start
};

struct TransportStatus {
  std::vector<RelayedPair> relayed;  // every pair that is allowed
  std::string listening;             // address with the real port; empty: not listening
  uint64_t streams_refused = 0;
  int streams_pending = 0;  // accepted, hello not yet received
  std::vector<PeerStatus> peers;
};

// Called on the poller thread.
class TransportListener {
 public:
  virtual ~TransportListener() = default;

  // A link is established: identity proven, versions agreed. Lanes follow; chunks may be sent at
  // once.
  virtual void OnPeerUp(const std::string& peer, uint64_t incarnation, const LinkInfo& info) = 0;
  // It ended; `reason` says why, ABORTED that a new link to the same process takes its place. Once
  // per OnPeerUp. OnChunkDone follows for what was not acknowledged.
  virtual void OnPeerDown(const std::string& peer, const absl::Status& reason) = 0;
  virtual void OnRunMessage(const std::string& peer, wan::v1::RunMessage&& message) = 0;
  // One chunk, its payload in a pooled, aligned buffer of exactly its size. Sizes are checked
  // against the link's limits only: check the header against the schema before use. The credit it
  // took stays taken until ReturnCredit.
  virtual void OnChunk(const std::string& peer, const ChunkHeader& header,
                       memory::Buffer payload) = 0;
  // Exactly once for each SendChunk that returned OK. OK: the peer's gateway holds the chunk.
  // CANCELLED: taken back by CancelChunks, never sent. UNAVAILABLE: the link was lost first.
  virtual void OnChunkDone(const std::string& peer, const ChunkHeader& header,
                           const absl::Status& status) = 0;
  // Something arrived from the peer (heartbeats count); at most every peer_timeout / 20.
  virtual void OnProgress(const std::string& peer) = 0;
  // One lane of a live link ended; its chunks go over the others and it is dialled again. For the
  // log.
  virtual void OnLaneBroken(const std::string& peer, int lane, const absl::Status& reason) = 0;
  // A stream was refused before or at its hello: for the log. `peer` is empty where no identity was
  // proven.
  virtual void OnRefused(const std::string& remote, const std::string& peer,
                         const absl::Status& reason) = 0;
};

class Transport {
 public:
  // Checks the configuration; INVALID_ARGUMENT names the field. `pool` holds received payloads.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(TransportConfig config,
                                                           memory::BufferPool* pool,
                                                           TransportListener* listener);
  virtual ~Transport() = default;  // stops

  // Listens and begins to dial. UNAVAILABLE names an address that cannot be bound.
  virtual absl::Status Start() = 0;
  // Says goodbye to every peer once what was accepted for sending is sent and acknowledged, or
  // `limit` has passed; no new links. Blocks until then; then call Stop. Not from the listener.
  virtual void Drain(absl::Duration limit) = 0;
  // Ends everything at once and joins the poller; no listener call after it returns. Not from the
  // listener.
  virtual void Stop() = 0;

  // Queues a message on the peer's control stream, ahead of no other and never behind bulk.
  // UNAVAILABLE: no link; RESOURCE_EXHAUSTED: kControlQueueBytesMax wait already; INVALID_ARGUMENT:
  // larger than kControlFrameBytesMax; NOT_FOUND: no such peer.
  virtual absl::Status SendRunMessage(const std::string& peer,
                                      const wan::v1::RunMessage& message) = 0;

  // Queues a chunk. Smaller `priority` goes first where credit and lanes allow; equal ones in
  // order. The payload is sent from where it lies and held until OnChunkDone. Errors as above;
  // RESOURCE_EXHAUSTED at kChunksQueuedMax.
  virtual absl::Status SendChunk(const std::string& peer, const ChunkHeader& header,
                                 memory::SharedBuffer payload, uint64_t priority) = 0;
  // Takes back queued chunks that `matches` names and that were never put on a lane. `matches` is
  // called on the poller thread.
  virtual void CancelChunks(const std::string& peer,
                            std::function<bool(const ChunkHeader&)> matches) = 0;

  // How many bytes of `run`'s chunks this side is willing to hold from `peer`; 0 closes the run for
  // that peer. Lasts over links. INVALID_ARGUMENT outside kWindowBytesMin..kWindowBytesMax,
  // RESOURCE_EXHAUSTED beyond kRunsPerPeerMax runs.
  virtual absl::Status SetWindow(const std::string& peer, const std::string& run,
                                 uint64_t bytes) = 0;
  // A chunk from OnChunk was consumed and its buffer is free again: exactly once per chunk, with
  // its payload size.
  virtual void ReturnCredit(const std::string& peer, const std::string& run,
                            uint64_t payload_bytes) = 0;

  // Ends the link to `peer` (the engine refuses it, say); it is dialled again after `pause`.
  virtual void Disconnect(const std::string& peer, const absl::Status& reason,
                          absl::Duration pause) = 0;

  // The newest known one where the poller does not answer within 2 s.
  virtual TransportStatus Status() = 0;
  // Of every configured peer, as of the poller's last tick: never waits. For planning.
  virtual std::vector<PeerRates> Rates() = 0;
  virtual int port() const = 0;  // that it listens on; 0: none
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_TRANSPORT_H_
