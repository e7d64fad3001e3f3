// One trainer's socket: reading datagrams, and a bounded queue of those that wait to be sent.
//
// Confined to the loop's thread. A trainer that does not read fills the queue and is cut off: the
// connection is then broken, drops what it is given and tells its owner once, from the loop. Does
// not: know messages or sessions.
#ifndef CAUSEWAY_DAEMON_TRAINERS_CONNECTION_H_
#define CAUSEWAY_DAEMON_TRAINERS_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/loop/descriptor.h"
#include "daemon/loop/loop.h"
#include "daemon/trainers/socket.h"

namespace causeway::trainers {

class Session;

inline constexpr size_t kQueuedMessagesMax = 256;  // to one trainer, beside what the kernel holds

class Connection {
 public:
  enum class Break { kNone, kClosed, kSlow };

  // `on_readable` is called while datagrams wait; `on_broken` at most once, from within Send or the
  // loop.
  Connection(loop::Loop& loop, uint64_t id, loop::Descriptor socket, Peer peer)
      : loop_(loop), id_(id), socket_(std::move(socket)), peer_(std::move(peer)) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Start(std::function<void()> on_readable, std::function<void()> on_broken);

  uint64_t id() const { return id_; }
  Peer& peer() { return peer_; }
  Break broken() const { return broken_; }
  uint64_t sent() const { return sent_; }  // messages

  Transfer Receive(Datagram& datagram);
  void Send(absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors);
  // Discards what the trainer sent, so that closing does not take the last messages to it away.
  void DiscardInput();

  // Kept here for the owner.
  Session* session = nullptr;  // after Hello
  uint16_t version = 0;        // 0: before Hello
  uint64_t last_sequence = 0;  // of the trainer's messages
  uint64_t next_sequence = 1;  // of ours
  loop::TimerId hello_timer = 0;

 private:
  struct Queued {
    std::vector<uint8_t> bytes;
    std::vector<loop::Descriptor> descriptors;
  };

  void OnEvents(uint32_t events);
  void Flush();
  void Enqueue(absl::Span<const uint8_t> bytes, absl::Span<const int> descriptors);
  void MarkBroken(Break reason);

  loop::Loop& loop_;
  const uint64_t id_;
  loop::Descriptor socket_;
  Peer peer_;
  loop::WatchId watch_ = 0;
  std::function<void()> on_readable_;
  std::function<void()> on_broken_;
  Break broken_ = Break::kNone;
  std::deque<Queued> queue_;
  uint64_t sent_ = 0;
};

}  // namespace causeway::trainers

#endif  // CAUSEWAY_DAEMON_TRAINERS_CONNECTION_H_
