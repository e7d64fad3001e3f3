// A run's chunks towards a peer: once at a time, again after a lost link or a full queue.
#include "daemon/run/network.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/run/fake_transport.h"

namespace causeway::run {
namespace {

using testing::FakeTransport;

struct Fixture {
  FakeTransport transport;
  Roster roster{{"lima", "paris", "tokyo"}};
  RunNetwork network{"demo", roster, 0, &transport};
  std::shared_ptr<memory::Budget> budget = memory::Budget::Create(1 << 20);
  memory::BufferPool pool{budget, *budget->Open("chunks"), 0};

  Fixture() { CHECK(network.OnPeerUp(1, 77, {}).empty()); }

  static exchange::ChunkAddress Chunk(
      uint32_t index, engine::RoundNumber round = 3,
      exchange::ChunkKind kind = exchange::ChunkKind::kContribution) {
    exchange::ChunkAddress out;
    out.kind = kind;
    out.epoch = {2, 1};
    out.round = round;
    out.attempt = kind == exchange::ChunkKind::kResult ? 4 : 0;
    out.incarnation = 9;
    out.index = index;
    return out;
  }
  bool Send(const exchange::ChunkAddress& address, bool again = false) {
    return network.SendChunk(1, address, memory::SharedBuffer(*pool.Allocate(100)), again);
  }
  std::vector<exchange::ChunkAddress> Done(const exchange::ChunkAddress& address,
                                           absl::Status status = absl::OkStatus()) {
    return network.OnChunkDone(1, address, status);
  }
  using Chunks = std::vector<exchange::ChunkAddress>;
};

TEST_CASE_METHOD(Fixture, "a chunk's name survives the wire, a result's attempt with it") {
  for (const exchange::ChunkAddress& address :
       {Chunk(5), Chunk(6, 8, exchange::ChunkKind::kResult)}) {
    CHECK(network.Address(network.Header(address)) == address);
  }
}

TEST_CASE_METHOD(Fixture, "a chunk is on its way once; what is used up goes again after it") {
  CHECK(Send(Chunk(1)));
  for (int i = 0; i < 100; ++i) CHECK(Send(Chunk(1)));  // a flood of requests
  CHECK(transport.sent.size() == 1);
  CHECK(Done(Chunk(1)).empty());
  CHECK(Send(Chunk(1)));
  for (int i = 0; i < 100; ++i) Send(Chunk(1), true);
  CHECK(transport.sent.size() == 2);
  CHECK(Done(Chunk(1)) == Chunks{Chunk(1)});
  CHECK(Done(Chunk(1)).empty());  // it was told once
}

TEST_CASE_METHOD(Fixture, "chunks that find no room go as the queue drains") {
  CHECK(Send(Chunk(1)));
  transport.answer = absl::ResourceExhaustedError("full");
  for (int twice = 0; twice < 2; ++twice) {
    CHECK_FALSE(Send(Chunk(2)));
    CHECK_FALSE(Send(Chunk(3)));
  }
  transport.answer = absl::OkStatus();
  CHECK(Done(Chunk(1)) == Chunks{Chunk(2)});
  CHECK(network.OnProgress(1) == Chunks{Chunk(3)});
  CHECK(network.OnProgress(1).empty());
}

TEST_CASE_METHOD(Fixture, "what a link takes with it goes on the next link to the same process") {
  Send(Chunk(1));
  Send(Chunk(2));
  network.OnPeerDown(1);
  CHECK(Done(Chunk(1), absl::UnavailableError("lost")).empty());
  CHECK(Done(Chunk(2), absl::UnavailableError("lost")).empty());
  CHECK(network.OnProgress(1).empty());  // nowhere to send it
  CHECK(network.OnPeerUp(1, 77, {}) == Chunks{Chunk(1), Chunk(2)});
  Send(Chunk(1));
  network.OnPeerDown(1);
  Done(Chunk(1), absl::UnavailableError("lost"));
  CHECK(network.OnPeerUp(1, 78, {3, 1}).empty());  // another process has no use for it
}

TEST_CASE_METHOD(Fixture, "what was begun for a new process before its link is sent on that") {
  network.OnPeerDown(1);
  transport.answer = absl::UnavailableError("no link");
  exchange::ChunkAddress old = Chunk(1);
  old.epoch = {1, 1};
  Send(old);
  Send(Chunk(2));
  transport.answer = absl::OkStatus();
  CHECK(network.OnPeerUp(1, 78, {2, 1}) == Chunks{Chunk(2)});
  CHECK(network.OnProgress(1).empty());
}

TEST_CASE_METHOD(Fixture, "what is cancelled is not sent again") {
  transport.answer = absl::ResourceExhaustedError("full");
  Send(Chunk(1, 3));
  Send(Chunk(1, 4));
  Send(Chunk(1, 3, exchange::ChunkKind::kResult));
  network.CancelChunks(exchange::ChunkKind::kContribution, 0, 3);
  CHECK(network.OnProgress(1) == Chunks{Chunk(1, 4), Chunk(1, 3, exchange::ChunkKind::kResult)});
}

TEST_CASE_METHOD(Fixture,
                 "older rounds go first, states last; each state chunk stands for itself") {
  Send(Chunk(0, 4));
  Send(Chunk(0, 3));
  exchange::ChunkAddress state = Chunk(0, 1, exchange::ChunkKind::kState);
  CHECK(Send(state));
  CHECK(Send(state));
  REQUIRE(transport.priorities.size() == 4);
  CHECK(transport.priorities[1] < transport.priorities[0]);
  CHECK(transport.priorities[2] > transport.priorities[0]);
  transport.answer = absl::UnavailableError("no link");
  CHECK_FALSE(Send(state));
}

}  // namespace
}  // namespace causeway::run
