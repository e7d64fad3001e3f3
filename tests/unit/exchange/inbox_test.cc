// The inbox: repeats, limits, epochs and rounds, and that every byte's credit comes back exactly
// once.
#include "daemon/exchange/inbox.h"

#include <catch2/catch.hpp>

namespace causeway::exchange {
namespace {

struct Fixture {
  std::shared_ptr<memory::Budget> budget = memory::Budget::Create(1 << 24);
  memory::BufferPool pool{budget, *budget->Open("chunks"), 0};
  uint64_t dropped = 0;
  Inbox inbox{4, [this](engine::ClusterId, uint64_t bytes) { dropped += bytes; }};

  bool Put(engine::RoundNumber round, uint32_t index, uint64_t counter = 1,
           engine::Incarnation incarnation = 9) {
    ChunkAddress address;
    address.epoch = {counter, 0};
    address.round = round;
    address.index = index;
    address.incarnation = incarnation;
    return inbox.Put(Inbox::NameOf(1, address), index, memory::SharedBuffer(*pool.Allocate(100)));
  }
  static Inbox::Name Name(engine::Incarnation incarnation, uint64_t counter,
                          engine::RoundNumber round) {
    return {1, incarnation, {counter, 0}, round, 0, ChunkKind::kContribution};
  }
};

TEST_CASE_METHOD(Fixture, "a chunk is kept once; repeats return their credit") {
  CHECK(Put(1, 0));
  CHECK_FALSE(Put(1, 0));
  CHECK(dropped == 100);
  CHECK(inbox.Find(Name(9, 1, 1), 0) != nullptr);
  CHECK(inbox.Find(Name(8, 1, 1), 0) == nullptr);  // another life of the sender
  CHECK(inbox.Find(Name(9, 2, 1), 0) == nullptr);
}

TEST_CASE_METHOD(Fixture, "a consumed chunk's repeat is dropped, unless it is asked for again") {
  CHECK(Put(1, 2));
  inbox.Consume(Name(9, 1, 1), 2);
  CHECK(dropped == 100);
  inbox.Consume(Name(9, 1, 1), 2);  // no credit twice
  CHECK(dropped == 100);
  CHECK(inbox.Consumed(Name(9, 1, 1), 2));
  CHECK_FALSE(Put(1, 2));
  CHECK(dropped == 200);
  inbox.Ask(Name(9, 1, 1), 2);
  CHECK(Put(1, 2));
  CHECK(inbox.Find(Name(9, 1, 1), 2) != nullptr);
}

TEST_CASE_METHOD(Fixture, "indices outside the fragment are dropped before anything is kept") {
  CHECK_FALSE(Put(1, 4));
  CHECK_FALSE(Put(1, 0xffffffffu));
  CHECK(dropped == 200);
}

TEST_CASE_METHOD(Fixture, "rounds and epochs end") {
  Put(1, 0);
  Put(2, 0);
  Put(2, 1, 2);
  inbox.DropRounds(1);
  CHECK(dropped == 100);
  inbox.DropEpochsBelow({2, 0});
  CHECK(dropped == 200);
  CHECK(inbox.Find(Name(9, 2, 2), 1) != nullptr);
  inbox.DropAll();
  CHECK(dropped == 300);
}

TEST_CASE_METHOD(Fixture, "a sender's contributions are bounded: the oldest makes room") {
  for (size_t i = 0; i < kInboxNamesMax; ++i) CHECK(Put(1, 0, 1, 1000 + i));
  CHECK_FALSE(Put(1, 0, 1, 5));
  CHECK(dropped == 100);
  CHECK(Put(1, 0, 1, 5000));
  CHECK(dropped == 200);
  CHECK(inbox.Find(Name(1000, 1, 1), 0) == nullptr);
  CHECK(inbox.Find(Name(1001, 1, 1), 0) != nullptr);
  CHECK(inbox.Find(Name(5000, 1, 1), 0) != nullptr);
}

TEST_CASE_METHOD(Fixture, "one sender takes no place from another") {
  for (size_t i = 0; i < 2 * kInboxNamesMax; ++i) Put(1, 0, 1, 1000 + i);
  ChunkAddress other;
  other.epoch = {1, 0};
  other.round = 1;
  other.incarnation = 1;
  for (engine::ClusterId from : {0, 2}) {
    CHECK(inbox.Put(Inbox::NameOf(from, other), 0, memory::SharedBuffer(*pool.Allocate(100))));
  }
  CHECK(dropped == 100 * kInboxNamesMax);
}

}  // namespace
}  // namespace causeway::exchange
