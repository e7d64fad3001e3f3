// Budget: the gateway's one memory limit, divided into named accounts.
//
// Whoever is about to hold memory that a peer, a trainer or a configuration can make large reserves
// it here first and is refused, by name, when it does not fit. A budget counts; it allocates
// nothing.
//
// Threads: everything may be called from any thread. Ownership: an account keeps its budget alive,
// so memory that outlives the objects around it (a slice still held by the network) is released
// safely.
#ifndef CAUSEWAY_DAEMON_MEMORY_BUDGET_H_
#define CAUSEWAY_DAEMON_MEMORY_BUDGET_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace causeway::memory {

class Budget;

// What one account, or the whole budget, holds. Bytes.
struct Usage {
  std::string name;
  uint64_t used_bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t limit_bytes = 0;
};

// One named user of the budget, with a limit of its own. Made by Budget::Open.
class Account {
 public:
  // Takes `bytes` from this account and from the budget, or nothing. RESOURCE_EXHAUSTED names the
  // account or the budget that is full, with what is used and allowed.
  absl::Status TryReserve(uint64_t bytes);
  // Gives back bytes that TryReserve took. More than are reserved is a bug of ours and aborts.
  void Release(uint64_t bytes);

  Usage usage() const;
  const std::string& name() const { return name_; }

 private:
  friend class Budget;
  Account(std::shared_ptr<Budget> budget, std::string name, uint64_t limit_bytes);

  const std::shared_ptr<Budget> budget_;  // shared: the last account out closes the budget
  const std::string name_;
  const uint64_t limit_bytes_;
  // Guarded by the budget's mutex, so that a reservation is atomic over both.
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
};

class Budget : public std::enable_shared_from_this<Budget> {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  static std::shared_ptr<Budget> Create(uint64_t limit_bytes);

  // The account of this name; opened with `limit_bytes` by the first caller. ALREADY_EXISTS if it
  // is open with another limit.
  absl::StatusOr<std::shared_ptr<Account>> Open(const std::string& name,
                                                uint64_t limit_bytes = kUnlimited);

  // A reclaimer gives back reserved but idle memory (a pool's cache) when a reservation would fail.
  // It is called without locks, from the reserving thread, and may be called once more after Remove
  // began.
  uint64_t AddReclaimer(std::function<void()> reclaim);
  void RemoveReclaimer(uint64_t id);

  Usage usage() const;
  std::vector<Usage> accounts() const;  // in order of name

 private:
  friend class Account;
  explicit Budget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  absl::Status TryReserve(Account& account, uint64_t bytes);
  absl::Status TryReserveOnce(Account& account, uint64_t bytes);
  void Release(Account& account, uint64_t bytes);

  struct Reclaimer {
    uint64_t id;
    std::function<void()> reclaim;
  };

  const uint64_t limit_bytes_;
  mutable absl::Mutex mutex_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_reclaimer_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<Reclaimer> reclaimers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Account>> accounts_ ABSL_GUARDED_BY(mutex_);
};

// Bytes reserved from an account for the lifetime of this object. Move-only.
class Charge {
 public:
  Charge() = default;
  static absl::StatusOr<Charge> Reserve(std::shared_ptr<Account> account, uint64_t bytes);
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { Reset(); }

  void Reset();
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Account> account_;
  uint64_t bytes_ = 0;
};

}  // namespace causeway::memory

#endif  // CAUSEWAY_DAEMON_MEMORY_BUDGET_H_
