// Before a fork the forking thread takes the locks it can get; in the child exactly those sessions
// close their descriptors. A session that another thread is using at that moment keeps them open in
// the child, which is harmless: the gateway sees a trainer's death by its process, not by its
// socket.
#include "client/shim/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "client/shim/session.h"

namespace causeway::client {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<Session*, bool>> sessions;  // and whether its lock is held for a fork
};

// Never destroyed: handlers may run while the process exits.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

void BeforeFork() {
  Registry& registry = TheRegistry();
  registry.mutex.lock();
  for (auto& [session, locked] : registry.sessions) locked = session->LockForFork();
}

void AfterForkInParent() {
  Registry& registry = TheRegistry();
  for (auto& [session, locked] : registry.sessions) {
    if (locked) session->UnlockAfterFork();
  }
  registry.mutex.unlock();
}

void AfterForkInChild() {
  Registry& registry = TheRegistry();
  for (auto& [session, locked] : registry.sessions) {
    session->BecomeChild(locked);
    if (locked) session->UnlockAfterFork();
  }
  registry.mutex.unlock();
}

}  // namespace

void ForkGuard::Add(Session* session) {
  static const int installed = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  (void)installed;  // fails for want of memory only; then calls still compare the process id
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.sessions.emplace_back(session, false);
}

void ForkGuard::Remove(Session* session) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  auto same = [session](const auto& entry) { return entry.first == session; };
  registry.sessions.erase(std::remove_if(registry.sessions.begin(), registry.sessions.end(), same),
                          registry.sessions.end());
}

}  // namespace causeway::client
