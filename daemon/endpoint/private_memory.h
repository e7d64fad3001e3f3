// PrivateMemory: a large zeroed block of this process's own, charged to an account.
//
// For what must not be shared and may exceed a pooled buffer: residuals. Not inherited over fork;
// huge pages where the system grants them. Pages are touched when used, not at creation; the charge
// is taken at once. Use from one thread at a time; the bytes are the owner's to synchronise.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_PRIVATE_MEMORY_H_
#define CAUSEWAY_DAEMON_ENDPOINT_PRIVATE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/memory/budget.h"

namespace causeway::endpoint {

class PrivateMemory {
 public:
  // `size` > 0 bytes, page-aligned. RESOURCE_EXHAUSTED names `name` and what is full.
  static absl::StatusOr<PrivateMemory> Create(std::shared_ptr<memory::Account> account,
                                              const std::string& name, uint64_t size);
  PrivateMemory() = default;
  PrivateMemory(PrivateMemory&& other) noexcept { *this = std::move(other); }
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory() { Reset(); }

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  void Reset();

 private:
  memory::Charge charge_;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_PRIVATE_MEMORY_H_
