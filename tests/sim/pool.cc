// Replaces operator new in the simulator's program, which makes and drops small things by the
// hundred million: freed blocks of up to kPooledMax bytes are kept in lists by size and used again.
//
// One thread only. Blocks of the pool are never given back to the system. Not linked into tests,
// which are to be seen by sanitizers.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kStep = 16;
constexpr size_t kPooledMax = 1024;
constexpr size_t kSlabBytes = 256 << 10;

// Before each block: which list it belongs to; kLists for one of malloc's.
struct alignas(kStep) Header {
  size_t list;
};
struct Free {
  Free* next;
};

constexpr size_t kLists = kPooledMax / kStep;
Free* lists[kLists];
char* slab = nullptr;
size_t slab_left = 0;

void* Block(size_t list) {
  const size_t size = sizeof(Header) + (list + 1) * kStep;
  if (slab_left < size) {
    slab = static_cast<char*>(std::malloc(kSlabBytes));
    if (slab == nullptr) throw std::bad_alloc();
    slab_left = kSlabBytes;
  }
  auto* header = reinterpret_cast<Header*>(slab);
  slab += size;
  slab_left -= size;
  header->list = list;
  return header + 1;
}

}  // namespace

void* operator new(size_t size) {
  const size_t list = size == 0 ? 0 : (size - 1) / kStep;
  if (list < kLists) {
    Free* free = lists[list];
    if (free == nullptr) return Block(list);
    lists[list] = free->next;
    return free;
  }
  auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + size));
  if (header == nullptr) throw std::bad_alloc();
  header->list = kLists;
  return header + 1;
}

void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  auto* header = static_cast<Header*>(block) - 1;
  const size_t list = header->list;
  if (list == kLists) {
    std::free(header);
    return;
  }
  auto* free = static_cast<Free*>(block);
  free->next = lists[list];
  lists[list] = free;
}

void operator delete(void* block, size_t) noexcept { operator delete(block); }
