// Order, credit, fairness and numbers of the chunks that wait for a peer.
#include "daemon/transport/send_queue.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "daemon/transport/limits.h"

namespace causeway::transport {
namespace {

class Source {
 public:
  OutgoingChunk Chunk(const std::string& run, uint32_t index, uint64_t priority, size_t bytes) {
    OutgoingChunk chunk;
    chunk.header.run = run;
    chunk.header.index = index;
    chunk.priority = priority;
    chunk.payload = memory::SharedBuffer(*pool_.Allocate(bytes));
    return chunk;
  }

 private:
  std::shared_ptr<memory::Budget> budget_ = memory::Budget::Create(64 << 20);
  memory::BufferPool pool_{budget_, *budget_->Open("test"), 64 << 20};
};

TEST_CASE("nothing leaves without credit, and then by priority and age") {
  Source source;
  SendQueue queue;
  queue.Add(source.Chunk("a", 0, 5, 3000));
  queue.Add(source.Chunk("a", 1, 5, 3000));
  queue.Add(source.Chunk("a", 2, 1, 3000));
  CHECK_FALSE(queue.Take().has_value());
  CHECK_FALSE(queue.Sendable());

  queue.Grant("a", 6500);
  auto first = queue.Take();
  REQUIRE(first.has_value());
  CHECK(first->header.index == 2);
  CHECK(first->number == 1);
  CHECK(queue.Take()->header.index == 0);
  CHECK_FALSE(queue.Take().has_value());  // 500 bytes of credit are left
  queue.Grant("a", 100);                  // never backwards
  CHECK_FALSE(queue.Take().has_value());
  queue.Grant("a", 9000);
  CHECK(queue.Take()->header.index == 1);
  CHECK(queue.chunks() == 0);
  CHECK(queue.bytes() == 0);
}

TEST_CASE("an empty chunk takes credit, too") {
  Source source;
  SendQueue queue;
  queue.Grant("a", kChunkCreditBytesMin);
  queue.Add(source.Chunk("a", 0, 0, 0));
  queue.Add(source.Chunk("a", 1, 0, 0));
  CHECK(queue.Take().has_value());
  CHECK_FALSE(queue.Take().has_value());
}

TEST_CASE("runs share the link by bytes, and one without credit holds up no other") {
  Source source;
  SendQueue queue;
  queue.Grant("large", 1 << 30);
  queue.Grant("small", 1 << 30);
  for (uint32_t i = 0; i < 100; ++i) queue.Add(source.Chunk("stuck", i, 0, 4096));
  for (uint32_t i = 0; i < 200; ++i) queue.Add(source.Chunk("large", i, 9, 16384));
  for (uint32_t i = 0; i < 800; ++i) queue.Add(source.Chunk("small", i, 0, 4096));
  uint64_t large = 0, small = 0;
  for (int i = 0; i < 500; ++i) {
    auto chunk = queue.Take();
    REQUIRE(chunk.has_value());
    (chunk->header.run == "large" ? large : small) += chunk->payload.size();
  }
  CHECK(large > 0.9 * small);
  CHECK(large < 1.1 * small);

  // A run that was idle does not catch up at the others' cost.
  queue.Grant("late", 1 << 30);
  for (uint32_t i = 0; i < 50; ++i) queue.Add(source.Chunk("late", i, 0, 16384));
  int late = 0;
  for (int i = 0; i < 30; ++i) late += queue.Take()->header.run == "late" ? 1 : 0;
  CHECK(late < 20);
}

TEST_CASE("chunks of a broken lane go first and keep number and credit") {
  Source source;
  SendQueue queue;
  queue.Grant("a", 5000);
  queue.Add(source.Chunk("a", 0, 0, 4000));
  queue.Add(source.Chunk("a", 1, 0, 4000));
  auto sent = queue.Take();
  REQUIRE(sent.has_value());
  queue.AddAgain(std::move(*sent));
  auto again = queue.Take();
  REQUIRE(again.has_value());
  CHECK(again->header.index == 0);
  CHECK(again->number == 1);
  CHECK_FALSE(queue.Take().has_value());
}

TEST_CASE("numbers do not run further ahead than the receiver remembers") {
  Source source;
  SendQueue queue;
  queue.Grant("a", uint64_t{1} << 40);
  auto one = source.Chunk("a", 0, 0, 16);
  for (uint64_t i = 0; i < kChunksInFlightMax + 10; ++i) queue.Add(one);
  for (uint64_t i = 0; i < kChunksInFlightMax; ++i) REQUIRE(queue.Take().has_value());
  CHECK_FALSE(queue.Take().has_value());
  queue.Acknowledged(2);
  CHECK_FALSE(queue.Take().has_value());
  queue.Acknowledged(1);
  CHECK(queue.Take().has_value());
  CHECK(queue.Take().has_value());
  CHECK_FALSE(queue.Take().has_value());
}

TEST_CASE("cancelling takes what was never sent; clearing takes all") {
  Source source;
  SendQueue queue;
  queue.Grant("a", 4096);
  for (uint32_t i = 0; i < 6; ++i) queue.Add(source.Chunk(i % 2 ? "a" : "b", i, i, 4096));
  auto sent = queue.Take();
  REQUIRE(sent.has_value());
  queue.AddAgain(std::move(*sent));
  auto cancelled = queue.Cancel([](const ChunkHeader& header) { return header.run == "a"; });
  CHECK(cancelled.size() == 2);
  CHECK(queue.chunks() == 4);
  CHECK(queue.Clear().size() == 4);
  CHECK(queue.chunks() == 0);
  CHECK(queue.bytes() == 0);
  queue.Add(source.Chunk("a", 9, 0, 1));
  CHECK_FALSE(queue.Take().has_value());  // credits ended with the link
}

TEST_CASE("a peer cannot name runs without end") {
  SendQueue queue;
  for (int i = 0; i < kCreditRunsMax; ++i) REQUIRE(queue.Grant("run " + std::to_string(i), 1));
  CHECK_FALSE(queue.Grant("one more", 1));
  CHECK(queue.Grant("run 5", 2));
}

}  // namespace
}  // namespace causeway::transport
