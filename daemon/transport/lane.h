// Lane: one stream of chunks between two gateways, both ways, with acknowledgements.
//
// A lane takes a chunk from its owner whenever the last one is in the kernel's hands, keeps it
// until the peer acknowledges it, and gives up what is unacknowledged when it breaks. It is broken
// when its stream ends, or when bytes are unacknowledged and nothing moved for `patience`; on a
// line so slow that a chunk takes longer, when the line carried enough meanwhile that it should
// have been through. Poller thread only.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LANE_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LANE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/byte_stream.h"
#include "daemon/transport/frames.h"
#include "daemon/transport/send_queue.h"
#include "daemon/transport/shared.h"

namespace causeway::transport {

class Lane final : public ByteStream::Handler {
 public:
  enum class Admission { kDeliver, kDrop };

  // The link that the lane belongs to. Any of these may end the lane; it touches nothing of its own
  // afterwards unless ended() is false.
  class Owner {
   public:
    virtual std::optional<OutgoingChunk> NextChunk() = 0;
    virtual void OnAcknowledged(const OutgoingChunk& chunk) = 0;
    virtual void OnReceived() = 0;  // a frame of any kind
    // May this chunk come in? An error ends the link.
    virtual absl::StatusOr<Admission> Admit(const ChunkFrame& chunk) = 0;
    virtual void OnPayload(const ChunkHeader& header, memory::Buffer payload) = 0;
    virtual void OnNoMemory() = 0;
    // What TCP has delivered on all connections of the link.
    virtual uint64_t LineBytes(absl::Time now) = 0;
    // How many lanes share the line.
    virtual int lanes_up() const = 0;
    virtual void OnLaneUp(Lane& lane) = 0;
    virtual void OnLaneBroken(Lane& lane, const absl::Status& reason, bool stalled) = 0;
    virtual void OnViolation(const absl::Status& reason) = 0;

   protected:
    ~Owner() = default;
  };

  // `theirs`: what the peer's LaneHello must say. Accepted lanes have read it already.
  Lane(Shared& shared, Owner& owner, LaneHelloFrame ours, LaneHelloFrame theirs);
  ~Lane();
  // Dialled: the stream is not open yet. Accepted: it is.
  void Begin(ByteStream* stream, bool dialled, absl::Time now);

  uint32_t index() const { return ours_.lane; }
  const std::string& remote() const { return remote_; }  // empty before it is up
  bool up() const { return up_ && !ended_; }
  bool ended() const { return ended_; }
  uint64_t unacknowledged_chunks() const { return unacknowledged_.size(); }
  uint64_t unacknowledged_bytes() const { return unacknowledged_bytes_; }
  bool acknowledged_any() const { return acknowledged_any_; }

  // Writes what is due, if the stream takes it.
  void Pump();
  // `own_pause`: time since the last tick in which this process did not run.
  void Tick(absl::Time now, absl::Duration patience, absl::Duration own_pause);
  // Ends the lane without telling the owner.
  void End();
  std::deque<OutgoingChunk> TakeUnacknowledged();

  void OnOpen() override;
  void OnRead(const grpc::ByteBuffer& frame) override;
  void OnWritten() override;
  void OnClosed(const absl::Status& reason) override;

 private:
  void Up();
  void OnHello(const LaneHelloFrame& hello);
  void OnAck(uint64_t sequence);
  void OnChunk(const ReceivedLaneFrame& frame);
  void Deliver(const ReceivedLaneFrame& frame);  // or park it
  void Received(const ChunkFrame& chunk);
  bool Take();
  bool Overdue(absl::Time now, absl::Duration patience);
  void Violation(const absl::Status& reason);

  Shared& shared_;
  Owner& owner_;
  const LaneHelloFrame ours_;
  const LaneHelloFrame theirs_;
  ByteStream* stream_ = nullptr;
  std::string remote_;
  bool hello_due_ = false;
  bool hello_received_ = false;
  bool up_ = false;
  bool ended_ = false;

  // Sending.
  uint64_t next_sequence_ = 1;
  std::deque<OutgoingChunk> unacknowledged_;
  uint64_t unacknowledged_bytes_ = 0;
  size_t unwritten_ = 0;    // of these, the newest: one or two
  size_t batch_bytes_ = 0;  // written and left to share packets with what follows
  bool acknowledged_any_ = false;
  absl::Time moved_at_;
  // Since nothing moves: what the line had carried then, and at the newest look.
  std::optional<uint64_t> line_then_;
  uint64_t line_seen_ = 0;
  absl::Time line_seen_at_;

  // Receiving.
  uint64_t received_ = 0;        // newest sequence that is held
  uint64_t acknowledged_ = 0;    // newest that the peer was told of
  uint64_t received_bytes_ = 0;  // since then
  bool ack_due_ = false;
  std::optional<ReceivedLaneFrame> parked_;  // waits for memory
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LANE_H_
