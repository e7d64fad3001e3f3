// See private_memory.h.
#include "daemon/endpoint/private_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace causeway::endpoint {

absl::StatusOr<PrivateMemory> PrivateMemory::Create(std::shared_ptr<memory::Account> account,
                                                    const std::string& name, uint64_t size) {
  absl::StatusOr<memory::Charge> charge = memory::Charge::Reserve(std::move(account), size);
  if (!charge.ok()) {
    return absl::Status(charge.status().code(),
                        absl::StrCat(name, ": ", charge.status().message()));
  }
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, ": cannot map ", size, " bytes: ", strerror(errno)));
  }
  // Both are advice: without them the memory works, slower or copied by a fork.
  (void)madvise(data, size, MADV_HUGEPAGE);
  (void)madvise(data, size, MADV_DONTFORK);
  PrivateMemory result;
  result.charge_ = *std::move(charge);
  result.data_ = static_cast<std::byte*>(data);
  result.size_ = size;
  return result;
}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  charge_ = std::move(other.charge_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void PrivateMemory::Reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
  charge_.Reset();
}

}  // namespace causeway::endpoint
