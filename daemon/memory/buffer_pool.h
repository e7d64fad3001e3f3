// BufferPool: aligned buffers in size classes, charged to an account. Buffer: one of them,
// move-only. SharedBuffer: a read-only, reference-counted view, for bytes that several peers and
// the retained copy of a round share.
//
// Threads: a pool and its shared buffers may be used from any thread; one Buffer from one at a
// time. Ownership: buffers keep their pool alive, so the last one may go after everybody else, for
// example in the network's own time. Memory is not cleared.
#ifndef CAUSEWAY_DAEMON_MEMORY_BUFFER_POOL_H_
#define CAUSEWAY_DAEMON_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/memory/budget.h"

namespace causeway::memory {

inline constexpr size_t kBufferAlignment = 64;              // a cache line, an AVX-512 register
inline constexpr size_t kBufferClassBytesMin = 4096;        // smaller requests take this much
inline constexpr size_t kBufferBytesMax = size_t{1} << 30;  // larger ones belong into shared memory

class PoolCore;

// A writable block of `size()` bytes at an address aligned to kBufferAlignment.
class Buffer {
 public:
  Buffer() = default;  // empty, owns nothing
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }  // what is charged
  absl::Span<std::byte> span() { return {data_, size_}; }
  absl::Span<const std::byte> span() const { return {data_, size_}; }

  // Changes the size within the capacity, keeping the bytes: encoders learn their length at the
  // end. A larger size than the capacity is a bug of ours and aborts.
  void Resize(size_t size);
  void Reset();  // gives the memory back to the pool

 private:
  friend class PoolCore;
  std::shared_ptr<PoolCore> pool_;  // shared: buffers outlive the pool's owner
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// A shared view of a buffer's bytes, from Share() on never changed. Copies are cheap.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  explicit SharedBuffer(Buffer buffer);

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  absl::Span<const std::byte> span() const { return {data_, size_}; }
  // A part of it that keeps the whole alive. Out of bounds is a bug of ours and aborts.
  SharedBuffer Part(size_t offset, size_t size) const;

 private:
  std::shared_ptr<const Buffer> owner_;  // shared: that is what this class is for
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class BufferPool {
 public:
  // Keeps at most `cached_bytes_max` of free memory for reuse. Cached memory stays charged to
  // `account` and is given up as soon as a reservation anywhere in the budget needs it.
  BufferPool(std::shared_ptr<Budget> budget, std::shared_ptr<Account> account,
             uint64_t cached_bytes_max);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of `size` bytes (0 is allowed). RESOURCE_EXHAUSTED when the account or the budget is
  // full, INVALID_ARGUMENT above kBufferBytesMax.
  absl::StatusOr<Buffer> Allocate(size_t size);

  uint64_t cached_bytes() const;
  void Trim();  // frees the cache

  // Bytes that a request for `size` is charged with.
  static size_t ClassBytes(size_t size);

 private:
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<PoolCore> core_;
  const uint64_t reclaimer_;
};

}  // namespace causeway::memory

#endif  // CAUSEWAY_DAEMON_MEMORY_BUFFER_POOL_H_
