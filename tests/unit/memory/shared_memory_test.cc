// Sealed shared memory: nobody can resize it, a result cannot be mapped writable by others, and
// errors come with the segment's name.
#include "daemon/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

namespace causeway::memory {
namespace {

// A second descriptor of the same file, as a process that received it could open.
int Reopen(int descriptor, int flags) {
  return open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), flags | O_CLOEXEC);
}

TEST_CASE("a snapshot segment is writable by others but never resized") {
  auto budget = Budget::Create(1 << 20);
  auto account = *budget->Open("snapshots");
  auto memory = SharedMemory::Create(account, "snapshot", 10000, Access::kOthersWrite);
  REQUIRE(memory.ok());
  CHECK(memory->size() == 10000);
  CHECK(account->usage().used_bytes == 12288);
  for (std::byte value : memory->span()) REQUIRE(value == std::byte{0});

  CHECK(ftruncate(memory->descriptor(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(ftruncate(memory->descriptor(), 20000) == -1);
  CHECK(fcntl(memory->descriptor(), F_ADD_SEALS, F_SEAL_WRITE) == -1);

  int other = Reopen(memory->descriptor(), O_RDWR);
  REQUIRE(other >= 0);
  void* view = mmap(nullptr, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
  REQUIRE(view != MAP_FAILED);
  static_cast<std::byte*>(view)[9999] = std::byte{42};
  CHECK(memory->data()[9999] == std::byte{42});
  munmap(view, 10000);
  close(other);

  memory->Reset();
  CHECK(account->usage().used_bytes == 0);
}

TEST_CASE("a result segment is written here and only read elsewhere") {
  auto budget = Budget::Create(1 << 20);
  auto account = *budget->Open("results");
  auto memory = SharedMemory::Create(account, "result", 4096, Access::kOthersRead);
  REQUIRE(memory.ok());
  memory->data()[0] = std::byte{1};

  int other = Reopen(memory->descriptor(), O_RDWR);
  REQUIRE(other >= 0);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED);
  char byte = 9;
  CHECK(pwrite(other, &byte, 1, 0) == -1);
  void* view = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other, 0);
  REQUIRE(view != MAP_FAILED);
  memory->data()[0] = std::byte{2};
  CHECK(static_cast<std::byte*>(view)[0] == std::byte{2});
  CHECK(mprotect(view, 4096, PROT_READ | PROT_WRITE) == -1);
  munmap(view, 4096);
  close(other);
}

TEST_CASE("sizes, names and the budget are checked") {
  auto budget = Budget::Create(8192);
  auto account = *budget->Open("segments");
  CHECK(absl::IsInvalidArgument(
      SharedMemory::Create(account, "none", 0, Access::kOthersWrite).status()));
  CHECK(absl::IsInvalidArgument(
      SharedMemory::Create(account, "huge", kSharedMemoryBytesMax + 1, Access::kOthersWrite)
          .status()));
  CHECK(absl::IsInvalidArgument(
      SharedMemory::Create(account, std::string(300, 'x'), 1, Access::kOthersWrite).status()));
  CHECK(absl::IsResourceExhausted(
      SharedMemory::Create(account, "large", 8193, Access::kOthersWrite).status()));
  CHECK(account->usage().used_bytes == 0);

  auto a = SharedMemory::Create(account, "a", 4096, Access::kOthersWrite);
  REQUIRE(a.ok());
  SharedMemory b = std::move(*a);
  CHECK(b.size() == 4096);
  CHECK(account->usage().used_bytes == 4096);
}

}  // namespace
}  // namespace causeway::memory
