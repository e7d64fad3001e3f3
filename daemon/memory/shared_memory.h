// SharedMemory: a sealed memfd that the gateway makes, maps and hands to a trainer by its
// descriptor.
//
// The gateway creates, sizes and seals it, so a trainer can neither shrink it under a reader
// (SIGBUS) nor grow it past the budget. Pages are allocated at creation: running out of memory is
// an error here, not a fault later. Creation therefore costs the clearing of every page, about 0.3
// s a GiB: make segments once a run, not once a round.
//
// Threads: create, map and destroy from one thread at a time; the bytes are the owner's to
// synchronise.
#ifndef CAUSEWAY_DAEMON_MEMORY_SHARED_MEMORY_H_
#define CAUSEWAY_DAEMON_MEMORY_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/memory/budget.h"

namespace causeway::memory {

inline constexpr uint64_t kSharedMemoryBytesMax = uint64_t{1} << 40;
inline constexpr size_t kSharedMemoryNameBytesMax = 200;  // memfd_create allows 249

enum class Access {
  kOthersWrite,  // a snapshot: the trainer writes, the gateway reads
  kOthersRead,   // a result: this process writes; every other mapping is read-only
                 // (F_SEAL_FUTURE_WRITE)
};

class SharedMemory {
 public:
  // Makes `size` bytes (1 to kSharedMemoryBytesMax), zeroed, mapped read-write here and not
  // inherited over fork. `name` appears in /proc/PID/maps. Errors name the segment and the failed
  // step: RESOURCE_EXHAUSTED (budget, memory, descriptors), INVALID_ARGUMENT, INTERNAL.
  static absl::StatusOr<SharedMemory> Create(std::shared_ptr<Account> account,
                                             const std::string& name, uint64_t size, Access access);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { Reset(); }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  absl::Span<std::byte> span() { return {data_, static_cast<size_t>(size_)}; }
  absl::Span<const std::byte> span() const { return {data_, static_cast<size_t>(size_)}; }
  // The descriptor to pass by SCM_RIGHTS; owned by this object.
  int descriptor() const { return descriptor_; }

  void Reset();

 private:
  Charge charge_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t mapped_bytes_ = 0;  // size rounded up to pages
};

}  // namespace causeway::memory

#endif  // CAUSEWAY_DAEMON_MEMORY_SHARED_MEMORY_H_
