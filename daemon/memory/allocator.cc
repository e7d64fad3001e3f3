#include "daemon/memory/allocator.h"

#include <malloc.h>

namespace causeway::memory {
namespace {

constexpr int kKeptBytesMax = 64 << 20;
constexpr int kMappedBytesMin = 32 << 20;  // the most that glibc takes

}  // namespace

void KeepFreedMemory() {
  // What it refuses stays at its default, which costs time and nothing else.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, kMappedBytesMin);
  mallopt(M_TRIM_THRESHOLD, kKeptBytesMax);
}

}  // namespace causeway::memory
