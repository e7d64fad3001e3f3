// Tells sessions that their process was forked.
//
// The one place with state of the process: pthread_atfork has no argument, so its handlers need a
// list of the living sessions. Any thread.
#pragma once

namespace causeway::client {

class Session;

class ForkGuard {
 public:
  static void Add(Session* session);
  static void Remove(Session* session);
};

}  // namespace causeway::client
