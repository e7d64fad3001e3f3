// Counting under one mutex: reservations are per chunk (tens of KiB and up), so contention is
// negligible and a reservation is atomic over account and budget. Rejected: an atomic per account
// with roll-back, which lets two threads refuse each other although either alone would fit.
#include "daemon/memory/budget.h"

#include <algorithm>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"

namespace causeway::memory {
namespace {

absl::Status Refuse(const std::string& what, uint64_t bytes, uint64_t used, uint64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " is full: ", bytes, " bytes asked for, ",
                                                   used, " of ", limit,
                                                   " in use; raise the memory limit in the "
                                                   "configuration or run fewer or smaller runs"));
}

bool Fits(uint64_t bytes, uint64_t used, uint64_t limit) {
  return used <= limit && bytes <= limit - used;
}

}  // namespace

Account::Account(std::shared_ptr<Budget> budget, std::string name, uint64_t limit_bytes)
    : budget_(std::move(budget)), name_(std::move(name)), limit_bytes_(limit_bytes) {}

absl::Status Account::TryReserve(uint64_t bytes) { return budget_->TryReserve(*this, bytes); }

void Account::Release(uint64_t bytes) { budget_->Release(*this, bytes); }

Usage Account::usage() const {
  absl::MutexLock lock(&budget_->mutex_);
  return {name_, used_bytes_, peak_bytes_, limit_bytes_};
}

std::shared_ptr<Budget> Budget::Create(uint64_t limit_bytes) {
  return std::shared_ptr<Budget>(new Budget(limit_bytes));
}

absl::StatusOr<std::shared_ptr<Account>> Budget::Open(const std::string& name,
                                                      uint64_t limit_bytes) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Account> found;
  std::vector<std::weak_ptr<Account>> live;
  for (const auto& weak : accounts_) {
    std::shared_ptr<Account> account = weak.lock();
    if (account == nullptr) continue;
    if (account->name_ == name) found = account;
    live.push_back(weak);
  }
  accounts_ = std::move(live);
  if (found != nullptr) {
    if (found->limit_bytes_ == limit_bytes) return found;
    return absl::AlreadyExistsError(absl::StrCat("memory account ", name,
                                                 " is open with a limit of ", found->limit_bytes_,
                                                 " bytes, not ", limit_bytes));
  }
  std::shared_ptr<Account> account(new Account(shared_from_this(), name, limit_bytes));
  accounts_.push_back(account);
  return account;
}

uint64_t Budget::AddReclaimer(std::function<void()> reclaim) {
  absl::MutexLock lock(&mutex_);
  reclaimers_.push_back({next_reclaimer_, std::move(reclaim)});
  return next_reclaimer_++;
}

void Budget::RemoveReclaimer(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  reclaimers_.erase(std::remove_if(reclaimers_.begin(), reclaimers_.end(),
                                   [id](const Reclaimer& entry) { return entry.id == id; }),
                    reclaimers_.end());
}

absl::Status Budget::TryReserve(Account& account, uint64_t bytes) {
  if (TryReserveOnce(account, bytes).ok()) return absl::OkStatus();
  std::vector<std::function<void()>> reclaims;
  {
    absl::MutexLock lock(&mutex_);
    for (const Reclaimer& entry : reclaimers_) reclaims.push_back(entry.reclaim);
  }
  for (const auto& reclaim : reclaims) reclaim();
  return TryReserveOnce(account, bytes);
}

absl::Status Budget::TryReserveOnce(Account& account, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (!Fits(bytes, account.used_bytes_, account.limit_bytes_)) {
    return Refuse(absl::StrCat("memory account ", account.name_), bytes, account.used_bytes_,
                  account.limit_bytes_);
  }
  if (!Fits(bytes, used_bytes_, limit_bytes_)) {
    return Refuse(absl::StrCat("memory budget (for ", account.name_, ")"), bytes, used_bytes_,
                  limit_bytes_);
  }
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  account.used_bytes_ += bytes;
  account.peak_bytes_ = std::max(account.peak_bytes_, account.used_bytes_);
  return absl::OkStatus();
}

void Budget::Release(Account& account, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  ABSL_RAW_CHECK(bytes <= account.used_bytes_ && bytes <= used_bytes_,
                 "memory account releases more than it reserved");
  account.used_bytes_ -= bytes;
  used_bytes_ -= bytes;
}

Usage Budget::usage() const {
  absl::MutexLock lock(&mutex_);
  return {"total", used_bytes_, peak_bytes_, limit_bytes_};
}

std::vector<Usage> Budget::accounts() const {
  // Accounts are released after the lock: the last reference to one may be this one.
  std::vector<std::shared_ptr<Account>> live;
  std::vector<Usage> result;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& weak : accounts_) {
      std::shared_ptr<Account> account = weak.lock();
      if (account == nullptr) continue;
      result.push_back(
          {account->name_, account->used_bytes_, account->peak_bytes_, account->limit_bytes_});
      live.push_back(std::move(account));
    }
  }
  std::sort(result.begin(), result.end(),
            [](const Usage& a, const Usage& b) { return a.name < b.name; });
  return result;
}

absl::StatusOr<Charge> Charge::Reserve(std::shared_ptr<Account> account, uint64_t bytes) {
  absl::Status reserved = account->TryReserve(bytes);
  if (!reserved.ok()) return reserved;
  Charge charge;
  charge.account_ = std::move(account);
  charge.bytes_ = bytes;
  return charge;
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  account_ = std::move(other.account_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Charge::Reset() {
  if (account_ != nullptr) account_->Release(bytes_);
  account_.reset();
  bytes_ = 0;
}

}  // namespace causeway::memory
