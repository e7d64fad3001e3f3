// Pooled buffers: alignment, classes, what is charged and cached, and lifetimes beyond the pool.
#include "daemon/memory/buffer_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace causeway::memory {
namespace {

struct Fixture {
  explicit Fixture(uint64_t limit, uint64_t cached = 0)
      : budget(Budget::Create(limit)),
        account(*budget->Open("pool")),
        pool(std::make_unique<BufferPool>(budget, account, cached)) {}
  std::shared_ptr<Budget> budget;
  std::shared_ptr<Account> account;
  std::unique_ptr<BufferPool> pool;
};

TEST_CASE("classes waste at most a quarter and keep the alignment") {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{5121},
                      size_t{131072}, size_t{131073}, (size_t{1} << 20) + 32, kBufferBytesMax}) {
    CAPTURE(size);
    const size_t bytes = BufferPool::ClassBytes(size);
    CHECK(bytes >= size);
    CHECK(bytes % kBufferAlignment == 0);
    CHECK(bytes == BufferPool::ClassBytes(bytes));
    if (size >= kBufferClassBytesMin) CHECK(bytes <= size + size / 4 + 1);
  }
}

TEST_CASE("a buffer is aligned, charged while it lives, and refused beyond the budget") {
  Fixture f(3 * 4096);
  {
    auto a = f.pool->Allocate(1);
    auto b = f.pool->Allocate(4096);
    auto empty = f.pool->Allocate(0);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    REQUIRE(empty.ok());
    CHECK(empty->size() == 0);
    CHECK(reinterpret_cast<uintptr_t>(a->data()) % kBufferAlignment == 0);
    CHECK(f.account->usage().used_bytes == 3 * 4096);
    CHECK(absl::IsResourceExhausted(f.pool->Allocate(1).status()));
    b->Resize(10);
    CHECK(b->size() == 10);
    CHECK(b->capacity() == 4096);
  }
  CHECK(f.account->usage().used_bytes == 0);
  CHECK(absl::IsInvalidArgument(f.pool->Allocate(kBufferBytesMax + 1).status()));
}

TEST_CASE("freed memory is reused up to the bound and given up on demand") {
  Fixture f(1 << 20, 8192);
  {
    auto a = f.pool->Allocate(4096);
    auto b = f.pool->Allocate(4096);
    auto c = f.pool->Allocate(4096);
  }
  CHECK(f.pool->cached_bytes() == 8192);
  CHECK(f.account->usage().used_bytes == 8192);
  auto again = f.pool->Allocate(100);
  CHECK(f.pool->cached_bytes() == 4096);
  CHECK(f.account->usage().used_bytes == 8192);

  // Another user of the same budget needs all that is left: the cache gives way.
  auto other = *f.budget->Open("other");
  REQUIRE(other->TryReserve((1 << 20) - 4096).ok());
  CHECK(f.pool->cached_bytes() == 0);
  other->Release((1 << 20) - 4096);
}

TEST_CASE("shared views outlive the pool and free the memory last") {
  Fixture f(1 << 20, 1 << 20);
  SharedBuffer part;
  {
    auto buffer = f.pool->Allocate(5000);
    std::memset(buffer->data(), 7, 5000);
    SharedBuffer whole(std::move(*buffer));
    CHECK(whole.size() == 5000);
    part = whole.Part(4000, 1000);
  }
  f.pool.reset();
  CHECK(f.account->usage().used_bytes == BufferPool::ClassBytes(5000));
  CHECK(part.size() == 1000);
  for (std::byte value : part.span()) CHECK(value == std::byte{7});
  part = SharedBuffer();
  CHECK(f.account->usage().used_bytes == 0);
}

TEST_CASE("the pool serves threads that pass buffers on") {
  Fixture f(64 << 20, 1 << 20);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<SharedBuffer> held;
      for (int i = 0; i < 2000; ++i) {
        auto buffer = f.pool->Allocate(1 + (i * 977 + t * 131) % 60000);
        if (!buffer.ok()) {
          ++failures;
          continue;
        }
        std::memset(buffer->data(), t, buffer->size());
        SharedBuffer shared(std::move(*buffer));
        if (shared.span().back() != std::byte(t)) ++failures;
        held.push_back(shared);
        if (held.size() > 8) held.erase(held.begin());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(f.account->usage().used_bytes == f.pool->cached_bytes());
}

}  // namespace
}  // namespace causeway::memory
