// Lets ThreadSanitizer see absl::Mutex and absl::CondVar, whose code is in a library of the
// distribution that was built without it: unseen, every state they guard looks like a race.
//
// Linked into the tests of the tsan build only. Each function stands before the library's own,
// which it calls, and tells the sanitizer what was acquired or released. Any thread.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"

#define CAUSEWAY_TEXT(name) #name
#define CAUSEWAY_EXPANDED(name) CAUSEWAY_TEXT(name)

namespace causeway::testing {
namespace {

// The library's own `Class::Method`, by its mangled name: the versioned namespace, then lengths.
template <typename Function>
Function Next(const char* mangled) {
  const std::string space = CAUSEWAY_EXPANDED(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name = "_ZN4absl" + std::to_string(space.size()) + space + mangled;
  void* found = dlsym(RTLD_NEXT, name.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "no %s in the libraries\n", name.c_str());
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

// A condition variable or Await gives the mutex up and takes it again.
class Given {
 public:
  explicit Given(void* mutex) : mutex_(mutex) { __tsan_release(mutex_); }
  ~Given() { __tsan_acquire(mutex_); }

 private:
  void* mutex_;
};

}  // namespace
}  // namespace causeway::testing

namespace absl {
ABSL_NAMESPACE_BEGIN

using causeway::testing::Given;
using causeway::testing::Next;

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>("5Mutex4LockEv");
  next(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>("5Mutex7TryLockEv");
  const bool taken = next(this);
  if (taken) __tsan_acquire(this);
  return taken;
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  next(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto next =
      Next<void (*)(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  const Given given(this);
  next(this, condition);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Given given(this);
  return next(this, condition, timeout);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next = Next<void (*)(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  const Given given(mutex);
  next(this, mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Duration)>(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  const Given given(mutex);
  return next(this, mutex, timeout);
}

ABSL_NAMESPACE_END
}  // namespace absl
