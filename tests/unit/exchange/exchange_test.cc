// Rounds of two exchanges: same bytes on both sides, whatever the order, repeats and attempts.
#include <cmath>

#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = 3 * (1 << 18) + 1000;  // four chunks
const engine::ClusterSet kBoth{0, 1};

void WriteNoise(Side& side, uint64_t seed) {
  side.model.Write(0, [seed](uint64_t i) { return Noise(seed, i); });
}

// Both hold the seed's values as round 0.
void Begin(Pair& pair) {
  for (auto& side : pair.sides) {
    WriteNoise(*side, 1);
    side->Adopt({});
  }
  pair.Until([&] { return !pair.a().adopted.empty() && !pair.b().adopted.empty(); });
}

// Both sides contribute with the same weight and are told to combine.
engine::Reduce StartAndReduce(Pair& pair, int64_t round, uint64_t weight) {
  const engine::Reduce order = pair.Order(round, {weight, weight});
  for (auto& side : pair.sides) {
    side->Start(round, weight, kBoth);
    side->rounds().Reduce(order);
  }
  return order;
}

void Commit(Pair& pair, const engine::Reduce& order, engine::OwnPart own) {
  pair.Until([&] { return !pair.a().held.empty() && !pair.b().held.empty(); });
  CHECK(pair.a().held.back().result == pair.b().held.back().result);
  CHECK(pair.a().held.back().previous_state == pair.b().held.back().previous_state);
  const size_t before = pair.a().committed.size();
  for (auto& side : pair.sides) {
    side->held.clear();
    side->rounds().Commit(pair.CommitOf(order, own));
    side->rounds().Release({7, static_cast<uint64_t>(order.round)});
  }
  pair.Until(
      [&] { return pair.a().committed.size() > before && pair.b().committed.size() > before; });
  CHECK(pair.a().outer->StateHash(0) == pair.b().outer->StateHash(0));
}

bool Equal(absl::Span<const float> a, absl::Span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("rounds of int4 with error feedback end in the same bytes and follow the mean") {
  Pair pair("int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements);
  Begin(pair);
  for (int64_t round = 1; round <= 3; ++round) {
    WriteNoise(pair.a(), 10 + static_cast<uint64_t>(round));
    WriteNoise(pair.b(), 20 + static_cast<uint64_t>(round));
    const engine::Reduce order = pair.Order(round, {100, 300});
    // One side is told to combine before anything is encoded, the other after.
    pair.a().rounds().Reduce(order);
    pair.a().Start(round, 100, kBoth, static_cast<uint64_t>(round));
    pair.b().Start(round, 300, kBoth, static_cast<uint64_t>(round));
    pair.b().rounds().Reduce(order);
    Commit(pair, order, engine::OwnPart::kCounted);
    REQUIRE(Equal(pair.a().Value(round), pair.b().Value(round)));
  }
  CHECK(pair.a().endpoint->HasResidual(0));
  CHECK(pair.a().returned_bytes == pair.a().received_bytes);
  CHECK(pair.b().returned_bytes == pair.b().received_bytes);
}

TEST_CASE("packed chunks are smaller and give the results of plain ones") {
  engine::Hash256 results[2];
  uint64_t bytes[2];
  for (int packed : {0, 1}) {
    Pair pair(packed ? "int4:b256:ef:zstd" : "int4:b256:ef", {}, kElements);
    Begin(pair);
    WriteNoise(pair.a(), 2);
    // Deltas have heavy tails, which is what makes codes compressible.
    pair.b().model.Write(0, [](uint64_t i) { return std::pow(Noise(3, i), 9.0f) * 100; });
    const engine::Reduce order = StartAndReduce(pair, 1, 1);
    Commit(pair, order, engine::OwnPart::kCounted);
    CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
    CHECK(pair.a().bad_chunks.empty());
    results[packed] = pair.a().outer->StateHash(0);
    bytes[packed] = pair.a().received_bytes;
  }
  CHECK(results[0] == results[1]);
  CHECK(bytes[1] < bytes[0] * 0.95);
}

TEST_CASE("fp32 averages exactly: values equal the mean of the snapshots") {
  Pair pair("fp32", {}, kElements);
  Begin(pair);
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  const engine::Reduce order = StartAndReduce(pair, 1, 5);
  Commit(pair, order, engine::OwnPart::kCounted);
  const absl::Span<const float> base = pair.a().Value(0);
  const absl::Span<const float> value = pair.a().Value(1);
  for (uint64_t i = 0; i < kElements; i += 997) {
    const float mean = ((base[i] - Noise(2, i)) + (base[i] - Noise(3, i))) * 0.5f;
    REQUIRE(value[i] == base[i] - mean);
  }
}

TEST_CASE("the same inputs give the same chunk bytes and results on every run") {
  std::vector<engine::Hash256> results;
  for (int repeat = 0; repeat < 2; ++repeat) {
    Pair pair("int4:ef", {}, kElements);
    Begin(pair);
    WriteNoise(pair.a(), 2);
    WriteNoise(pair.b(), 3);
    const engine::Reduce order = pair.Order(1, {1, 2});
    pair.wire.twice = repeat == 1;
    for (auto& side : pair.sides) {
      side->Start(1, side.get() == &pair.a() ? 1 : 2, kBoth);
      side->rounds().Reduce(order);
    }
    pair.Until([&] { return !pair.a().held.empty(); });
    results.push_back(pair.a().held[0].result);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("repeated chunks count once, and their credit comes back") {
  Pair pair("int8:ef", {}, kElements);
  Begin(pair);
  pair.wire.twice = true;
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  const engine::Reduce order = StartAndReduce(pair, 1, 1);
  Commit(pair, order, engine::OwnPart::kCounted);
  CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
  pair.Until([&] { return pair.a().returned_bytes == pair.a().received_bytes; });
  pair.Until([&] { return pair.b().returned_bytes == pair.b().received_bytes; });
}

TEST_CASE(
    "a new attempt without one contributor uses what is retained; it is excluded everywhere") {
  Pair pair("int4:ef", {}, kElements);
  Begin(pair);
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  const engine::Reduce both = pair.Order(1, {1, 1});
  for (auto& side : pair.sides) {
    side->Start(1, 1, kBoth);
    side->rounds().Reduce(both);
  }
  pair.Until([&] { return !pair.a().held.empty() && !pair.b().held.empty(); });
  for (auto& side : pair.sides) side->held.clear();
  engine::Reduce only_a = pair.Order(1, {1}, 1);
  for (auto& side : pair.sides) {
    side->rounds().DropAttempts({0, 1, {1, 0}, 0});
    side->rounds().Reduce(only_a);
  }
  pair.Until([&] { return !pair.a().held.empty() && !pair.b().held.empty(); });
  CHECK(pair.b().chunks_requested == 4);  // what the first attempt had used up
  CHECK(pair.a().held[0].result == pair.b().held[0].result);
  pair.a().rounds().Commit(pair.CommitOf(only_a, engine::OwnPart::kCounted));
  pair.b().rounds().Commit(pair.CommitOf(only_a, engine::OwnPart::kExcluded));
  for (auto& side : pair.sides) side->rounds().Release({7, 1});
  pair.Until([&] { return !pair.a().committed.empty() && !pair.b().committed.empty(); });
  CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
  CHECK(pair.a().endpoint->HasResidual(0));
  CHECK_FALSE(pair.b().endpoint->HasResidual(0));
  CHECK_FALSE(pair.b().endpoint->open(0));
}

TEST_CASE("a round of weight zero commits unchanged, also before anything is encoded") {
  Pair pair("int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements);
  Begin(pair);
  int sent = 0;
  pair.wire.lose = [&sent](const exchange::ChunkAddress&) {
    ++sent;
    return false;
  };
  const engine::Reduce order = pair.Order(1, {0, 0});
  for (auto& side : pair.sides) {
    side->Start(1, 0, kBoth);
    side->rounds().Reduce(order);
    REQUIRE(side->held.size() == 1);
    side->rounds().Commit(pair.CommitOf(order, engine::OwnPart::kCounted));
    side->rounds().Release({7, 1});
  }
  pair.Until([&] { return !pair.a().committed.empty() && !pair.b().committed.empty(); });
  CHECK(Equal(pair.a().Value(1), pair.a().Value(0)));
  pair.Until([&] { return !pair.a().endpoint->open(0); });
  CHECK(sent == 0);
}

TEST_CASE("a contribution without weight is sent where others have some") {
  Pair pair("int8", {}, kElements);
  Begin(pair);
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  const engine::Reduce order = pair.Order(1, {0, 3});
  for (size_t i = 0; i < 2; ++i) {
    pair.sides[i]->Start(1, order.contributors[i].weight, kBoth);
    pair.sides[i]->rounds().Reduce(order);
  }
  Commit(pair, order, engine::OwnPart::kCounted);
  CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
  CHECK_FALSE(Equal(pair.a().Value(1), pair.a().Value(0)));
}

TEST_CASE("lost chunks are sent again from what is retained") {
  Pair pair("int8", {}, kElements);
  Begin(pair);
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  pair.wire.lose = [](const exchange::ChunkAddress& address) { return address.index == 2; };
  const engine::Reduce order = StartAndReduce(pair, 1, 1);
  pair.Until([&] { return pair.a().rounds().Progress().chunks_reduced == 3; });
  CHECK(pair.a().held.empty());
  pair.wire.lose = [](const exchange::ChunkAddress&) { return false; };
  exchange::ChunkRequest request;
  request.round = 1;
  request.indices = {2};
  pair.a().rounds().SendAgain(1, request);
  request.indices = {2, 900};  // a request for a chunk that is none does no harm
  pair.b().rounds().SendAgain(0, request);
  Commit(pair, order, engine::OwnPart::kCounted);
  CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
}

TEST_CASE(
    "stale chunks are dropped; forged ones are found before they count, and asked for again") {
  Pair pair("int4", {}, kElements);
  Begin(pair);
  Side& a = pair.a();
  const auto send = [&](engine::RoundNumber round, uint32_t index, size_t size) {
    auto buffer = a.received->Allocate(size);
    REQUIRE(buffer.ok());
    std::memset(buffer->data(), 0x5a, size);
    exchange::ChunkAddress address;
    address.epoch = {1, 0};
    address.incarnation = 101;
    address.round = round;
    address.index = index;
    a.received_bytes += size;
    a.exchange->OnChunk(1, address, *std::move(buffer));
  };
  send(0, 0, 100);  // already committed
  send(1, 77, 100);
  CHECK(a.returned_bytes == a.received_bytes);
  send(1, 0, 100);  // takes the place of the true one
  CHECK(a.returned_bytes + 100 == a.received_bytes);
  WriteNoise(pair.a(), 2);
  WriteNoise(pair.b(), 3);
  const engine::Reduce order = StartAndReduce(pair, 1, 1);
  Commit(pair, order, engine::OwnPart::kCounted);
  CHECK(a.bad_chunks.size() == 1);
  CHECK(a.chunks_requested == 1);
  CHECK(Equal(pair.a().Value(1), pair.b().Value(1)));
  CHECK(a.returned_bytes == a.received_bytes);
}

TEST_CASE("rounds after a rollback begin while the value that they build on is still on its way") {
  Pair pair("int8", {outer::RuleSpec::Kind::kAverage}, (1 << 18) + 7);
  const engine::ClusterSet both = engine::ClusterSet::FirstOf(2);
  const auto value = [](uint64_t i) { return Noise(1, i); };
  for (auto& side : pair.sides) {
    side->model.Write(0, value);
    engine::StateId state;
    state.round = side == pair.sides[0] ? 3 : 5;
    side->Adopt(state);
  }
  pair.Until([&] { return !pair.a().adopted.empty() && !pair.b().adopted.empty(); });
  pair.Install({2, 0}, both);
  pair.b().rounds().Expect(3);
  pair.a().model.Write(0, [](uint64_t i) { return Noise(2, i); });
  pair.a().Start(4, 4, both);
  pair.Until([&] { return pair.a().rounds().Progress().chunks_encoded == 2; });
  pair.Until([&] { return pair.b().received_bytes > 1 << 18; });
  engine::StateId third;
  third.round = 3;
  pair.b().model.Write(0, value);
  pair.b().Adopt(third);
  pair.Until([&] { return pair.b().adopted.size() == 2; });
  pair.b().model.Write(0, [](uint64_t i) { return Noise(3, i); });
  pair.b().Start(4, 4, both);
  engine::Reduce order = pair.Order(4, {4, 4});
  for (engine::Contributor& contributor : order.contributors) contributor.op = {7, 1};
  for (auto& side : pair.sides) side->rounds().Reduce(order);
  pair.Until([&] { return !pair.a().held.empty() && !pair.b().held.empty(); });
  CHECK(pair.a().held[0].result == pair.b().held[0].result);
}

TEST_CASE("gradients average without outer state, NaN flags the result") {
  Pair pair("fp32", {outer::RuleSpec::Kind::kGradients, 1, 0}, 1000);
  pair.a().model.Write(0, [](uint64_t i) { return i == 5 ? std::nanf("") : 1.0f; });
  pair.b().model.Write(0, [](uint64_t) { return 3.0f; });
  const engine::Reduce order = StartAndReduce(pair, 1, 1);
  Commit(pair, order, engine::OwnPart::kCounted);
  CHECK(pair.a().committed[0].nonfinite);
  CHECK(pair.a().Value(1)[0] == 2.0f);
  CHECK(std::isnan(pair.b().Value(1)[5]));
}

}  // namespace
}  // namespace causeway::testing
