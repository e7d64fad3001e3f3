// Size classes: four steps to each power of two, so that at most a quarter is wasted and an encoded
// chunk of varying length reuses the same few classes. Rejected: malloc for each chunk, whose mmap
// threshold turns a 1 MiB chunk into a page-fault storm per round.
#include "daemon/memory/buffer_pool.h"

#include <cstdlib>
#include <map>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace causeway::memory {

// The part of a pool that its buffers keep alive.
class PoolCore : public std::enable_shared_from_this<PoolCore> {
 public:
  PoolCore(std::shared_ptr<Account> account, uint64_t cached_bytes_max)
      : account_(std::move(account)), cached_bytes_max_(cached_bytes_max) {}
  ~PoolCore() { Trim(); }

  absl::StatusOr<Buffer> Allocate(size_t size);
  void Return(std::byte* data, size_t capacity);
  void Trim();
  void Close();  // nothing is cached from now on
  uint64_t cached_bytes() const;

 private:
  std::byte* TakeCached(size_t capacity);

  const std::shared_ptr<Account> account_;
  const uint64_t cached_bytes_max_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t cached_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<size_t, std::vector<std::byte*>> free_ ABSL_GUARDED_BY(mutex_);
};

std::byte* PoolCore::TakeCached(size_t capacity) {
  absl::MutexLock lock(&mutex_);
  auto found = free_.find(capacity);
  if (found == free_.end() || found->second.empty()) return nullptr;
  std::byte* data = found->second.back();
  found->second.pop_back();
  cached_bytes_ -= capacity;
  return data;
}

absl::StatusOr<Buffer> PoolCore::Allocate(size_t size) {
  if (size > kBufferBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer of ", size, " bytes is larger than the limit of ", kBufferBytesMax,
                     "; use shared memory or smaller parts"));
  }
  const size_t capacity = BufferPool::ClassBytes(size);
  std::byte* data = TakeCached(capacity);
  if (data == nullptr) {
    absl::Status reserved = account_->TryReserve(capacity);
    if (!reserved.ok()) return reserved;
    data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, capacity));
    if (data == nullptr) {
      account_->Release(capacity);
      return absl::ResourceExhaustedError(absl::StrCat(
          "the system refuses ", capacity, " bytes for memory account ", account_->name(),
          " although the budget allows them; lower the memory limit or free memory"));
    }
  }
  Buffer buffer;
  buffer.pool_ = shared_from_this();
  buffer.data_ = data;
  buffer.size_ = size;
  buffer.capacity_ = capacity;
  return buffer;
}

void PoolCore::Return(std::byte* data, size_t capacity) {
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_ && cached_bytes_ + capacity <= cached_bytes_max_) {
      free_[capacity].push_back(data);
      cached_bytes_ += capacity;
      return;
    }
  }
  std::free(data);
  account_->Release(capacity);
}

void PoolCore::Trim() {
  std::map<size_t, std::vector<std::byte*>> taken;
  uint64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    taken.swap(free_);
    bytes = std::exchange(cached_bytes_, 0);
  }
  for (auto& [capacity, blocks] : taken) {
    for (std::byte* data : blocks) std::free(data);
  }
  if (bytes > 0) account_->Release(bytes);
}

void PoolCore::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  Trim();
}

uint64_t PoolCore::cached_bytes() const {
  absl::MutexLock lock(&mutex_);
  return cached_bytes_;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::move(other.pool_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

void Buffer::Resize(size_t size) {
  ABSL_RAW_CHECK(size <= capacity_, "buffer resized beyond its capacity");
  size_ = size;
}

void Buffer::Reset() {
  if (pool_ != nullptr) pool_->Return(data_, capacity_);
  pool_.reset();
  data_ = nullptr;
  size_ = 0;
  capacity_ = 0;
}

SharedBuffer::SharedBuffer(Buffer buffer) {
  auto owner = std::make_shared<const Buffer>(std::move(buffer));
  data_ = owner->data();
  size_ = owner->size();
  owner_ = std::move(owner);
}

SharedBuffer SharedBuffer::Part(size_t offset, size_t size) const {
  ABSL_RAW_CHECK(offset <= size_ && size <= size_ - offset, "part lies outside its shared buffer");
  SharedBuffer part = *this;
  part.data_ += offset;
  part.size_ = size;
  return part;
}

BufferPool::BufferPool(std::shared_ptr<Budget> budget, std::shared_ptr<Account> account,
                       uint64_t cached_bytes_max)
    : budget_(std::move(budget)),
      core_(std::make_shared<PoolCore>(std::move(account), cached_bytes_max)),
      reclaimer_(budget_->AddReclaimer([core = std::weak_ptr<PoolCore>(core_)] {
        if (auto pool = core.lock()) pool->Trim();
      })) {}

BufferPool::~BufferPool() {
  budget_->RemoveReclaimer(reclaimer_);
  core_->Close();
}

absl::StatusOr<Buffer> BufferPool::Allocate(size_t size) { return core_->Allocate(size); }
uint64_t BufferPool::cached_bytes() const { return core_->cached_bytes(); }
void BufferPool::Trim() { core_->Trim(); }

size_t BufferPool::ClassBytes(size_t size) {
  if (size <= kBufferClassBytesMin) return kBufferClassBytesMin;
  const size_t step = absl::bit_floor(size - 1) / 4;
  return (size + step - 1) / step * step;
}

}  // namespace causeway::memory
