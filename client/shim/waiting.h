// How threads of the trainer wait for the gateway, and the descriptor that lets an event loop do
// it.
//
// Nested epolls: the inner one holds the gateway's socket (or, while there is none, a timer for the
// next attempt), so its descriptor stays the same over reconnects; the outer one adds "an operation
// has ended that nobody has asked about yet", because the message that said so may have been read
// by another call. A thread that reads messages wakes the other waiting threads, whose messages it
// may have read. Wait releases the owner's lock; everything else is called with it held.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client {

using Clock = std::chrono::steady_clock;

// A point in time, or never.
struct Deadline {
  static Deadline In(int64_t timeout_ms);  // negative: never
  bool Passed(Clock::time_point now) const { return !never && now >= at; }
  bool never = true;
  Clock::time_point at{};
};

class Waiting {
 public:
  enum class Wake { kNews, kTime, kSignal };

  Status Open();
  int poll_descriptor() const { return outer_.get(); }

  // The socket to watch; it leaves the set when it is closed.
  Status Watch(int socket);
  // Instead of a socket: wake everybody at `when`.
  void WakeAt(Clock::time_point when);
  void ClearTimer();
  void SetUnread(bool unread);

  // Until there may be news, the deadline, or a signal handler ran in this thread.
  Wake Wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline);
  // All waiting threads look again.
  void WakeOthers();

  // In a forked child: closes the copies.
  void Abandon();

 private:
  Descriptor inner_, outer_, timer_, unread_event_;
  bool unread_ = false;
  std::vector<int> waiters_;  // event descriptors, owned by the frames of Wait
};

}  // namespace causeway::client
