// SendQueue: the chunks that wait for one peer, and the credit that lets them go.
//
// Order: chunks of a broken lane first; then, among runs that have credit, the one served least so
// far (in bytes), and within a run the smallest priority, then the oldest. Confined to the poller
// thread; no I/O.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_SEND_QUEUE_H_
#define CAUSEWAY_DAEMON_TRANSPORT_SEND_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/memory/buffer_pool.h"
#include "daemon/transport/chunk.h"
#include "daemon/transport/number_window.h"

namespace causeway::transport {

// A chunk on its way out, from SendChunk to its acknowledgement.
struct OutgoingChunk {
  ChunkHeader header;
  memory::SharedBuffer payload;
  uint64_t priority = 0;
  uint64_t number = 0;    // on this link; 0: never on a lane
  uint64_t sequence = 0;  // on its lane
};

class SendQueue {
 public:
  SendQueue();

  void Add(OutgoingChunk chunk);
  // A chunk whose lane broke: it keeps its number and the credit it took.
  void AddAgain(OutgoingChunk chunk);
  // The receiver's total for a run since the link began. Smaller than before is ignored. False, and
  // without effect, beyond kCreditRunsMax runs.
  bool Grant(const std::string& run, uint64_t total_bytes);

  // The next chunk that may be put on a lane; a first-time one gets its number and takes its
  // credit.
  std::optional<OutgoingChunk> Take();
  bool Sendable() const;  // Take would give a chunk
  void Acknowledged(uint64_t number);

  // Removes chunks that were never on a lane.
  std::vector<OutgoingChunk> Cancel(const std::function<bool(const ChunkHeader&)>& matches);
  // Ends the link: removes everything, forgets credits and numbers.
  std::vector<OutgoingChunk> Clear();

  uint64_t chunks() const { return chunks_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Run {
    std::map<uint64_t, std::deque<OutgoingChunk>> waiting;  // by priority; no empty queues
    uint64_t granted_bytes = 0;
    uint64_t taken_bytes = 0;
    uint64_t served_bytes =
        0;  // for fairness; brought up to date when the run becomes able to send

    bool HasCredit() const;
  };

  void Count(const OutgoingChunk& chunk);
  void Uncount(const OutgoingChunk& chunk);

  std::map<std::string, Run> runs_;
  std::deque<OutgoingChunk> again_;
  NumberWindow settled_;
  uint64_t served_now_ = 0;  // served_bytes of the run that was taken from last
  uint64_t next_number_ = 1;
  uint64_t chunks_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_SEND_QUEUE_H_
