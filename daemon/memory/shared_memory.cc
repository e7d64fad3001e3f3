// memfd rather than named shared memory: containers give /dev/shm 64 MiB, names leak after a crash
// and any local user can open them. Seals are what makes reading a trainer's segment safe.
#include "daemon/memory/shared_memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1; older C libraries lack the name
#endif

namespace causeway::memory {
namespace {

absl::Status Failed(const std::string& name, const char* step, uint64_t size, int error) {
  const std::string message = absl::StrCat("shared memory ", name, " of ", size, " bytes: ", step,
                                           " failed: ", std::strerror(error));
  switch (error) {
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(
          absl::StrCat(message, "; raise LimitNOFILE of the service"));
    case ENOMEM:
    case ENOSPC:
      return absl::ResourceExhaustedError(
          absl::StrCat(message, "; free memory or lower the memory limit in the configuration"));
    default:
      return absl::InternalError(message);
  }
}

int AllocatePages(int descriptor, uint64_t size) {
  int result;
  do {
    result = fallocate(descriptor, 0, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(std::shared_ptr<Account> account,
                                                  const std::string& name, uint64_t size,
                                                  Access access) {
  if (size == 0 || size > kSharedMemoryBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory ", name, ": size ", size,
                                                   " is outside 1 to ", kSharedMemoryBytesMax));
  }
  if (name.size() > kSharedMemoryNameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory name of ", name.size(),
                                                   " bytes exceeds ", kSharedMemoryNameBytesMax));
  }
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t pages_bytes = (size + page - 1) / page * page;
  absl::StatusOr<Charge> charge = Charge::Reserve(std::move(account), pages_bytes);
  if (!charge.ok()) return charge.status();

  SharedMemory memory;  // from here on its destructor cleans up
  memory.charge_ = std::move(*charge);
  memory.descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor_ < 0) return Failed(name, "memfd_create", size, errno);
  if (ftruncate(memory.descriptor_, static_cast<off_t>(size)) != 0) {
    return Failed(name, "ftruncate", size, errno);
  }
  if (int error = AllocatePages(memory.descriptor_, size); error != 0) {
    return Failed(name, "fallocate", size, error);
  }
  void* mapped =
      mmap(nullptr, pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor_, 0);
  if (mapped == MAP_FAILED) return Failed(name, "mmap", size, errno);
  memory.data_ = static_cast<std::byte*>(mapped);
  memory.size_ = size;
  memory.mapped_bytes_ = pages_bytes;

  // Huge pages are a wish: kernels without them for shared memory refuse, and that changes speed
  // only.
  (void)madvise(mapped, pages_bytes, MADV_HUGEPAGE);
  if (madvise(mapped, pages_bytes, MADV_DONTFORK) != 0) return Failed(name, "madvise", size, errno);
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (access == Access::kOthersRead)
    seals |= F_SEAL_FUTURE_WRITE;  // the mapping above stays writable
  if (fcntl(memory.descriptor_, F_ADD_SEALS, seals) != 0)
    return Failed(name, "sealing", size, errno);
  return memory;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  charge_ = std::move(other.charge_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  return *this;
}

void SharedMemory::Reset() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
  if (descriptor_ >= 0) close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
  size_ = 0;
  mapped_bytes_ = 0;
  charge_.Reset();
}

}  // namespace causeway::memory
