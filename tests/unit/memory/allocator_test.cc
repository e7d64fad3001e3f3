// That freed memory is used again without page faults, as receiving frees and takes it.
#include "daemon/memory/allocator.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace causeway::memory {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which bring their own malloc

constexpr size_t kBlockBytes = 256 << 10;
constexpr size_t kBlocks = 224;  // 56 MiB
constexpr size_t kPageBytes = 4096;

void TakeAndFree() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique_for_overwrite<char[]>(kBlockBytes));
    for (size_t at = 0; at < kBlockBytes; at += kPageBytes) blocks.back()[at] = 1;
  }
}

long Faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST_CASE("what one thread frees is taken again without a page fault") {
  KeepFreedMemory();
  long faults = 0;
  std::thread([&] {
    TakeAndFree();
    const long before = Faults();
    for (int i = 0; i < 3; ++i) TakeAndFree();
    faults = Faults() - before;
  }).join();
  CHECK(faults < static_cast<long>(kBlocks * kBlockBytes / kPageBytes / 10));
}

#endif

}  // namespace
}  // namespace causeway::memory
