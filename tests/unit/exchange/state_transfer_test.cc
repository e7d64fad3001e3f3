// Outer state from a donor to a joiner: whole, verified, from another donor when one lies or moves
// on.
#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = (1 << 18) + 500;

// The donor is at round 0 with momentum that is not zero; the joiner has nothing.
struct Fixture {
  Pair pair{"int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements};
  engine::StateId state;

  Fixture() {
    Side& donor = pair.a();
    donor.model.Write(0, [](uint64_t i) { return Noise(1, i); });
    donor.Adopt({});
    pair.Until([&] { return !donor.adopted.empty(); });
    donor.model.Write(0, [](uint64_t i) { return Noise(2, i); });
    const engine::Reduce order = pair.Order(1, {4});
    donor.Start(1, 4, engine::ClusterSet{0});
    donor.rounds().Reduce(order);
    pair.Until([&] { return !donor.held.empty(); });
    donor.rounds().Commit(pair.CommitOf(order, engine::OwnPart::kCounted));
    donor.rounds().Release({7, 1});
    pair.Until([&] { return !donor.committed.empty(); });
    state = donor.committed[0].record.state;
  }
  void Fetch(engine::StateId wanted) {
    pair.b().exchange->state(0).Fetch({0, wanted, engine::ClusterSet{0}});
  }
};

TEST_CASE_METHOD(Fixture, "a joiner ends with the donor's values, momentum and hash") {
  Fetch(state);
  pair.Until([&] { return !pair.b().states.empty(); });
  CHECK(pair.b().states[0].state == state);
  CHECK(pair.b().adopted.empty());  // nothing is the run's value before the engine says so
  engine::AdoptState adopt;
  adopt.state = state;
  pair.b().exchange->state(0).Adopt(adopt);
  pair.Until([&] { return !pair.b().adopted.empty(); });
  CHECK(pair.b().outer->StateHash(0) == pair.a().outer->StateHash(0));
  CHECK(pair.b().Value(1) == pair.a().Value(1));
  CHECK(pair.b().outer->Momentum(0, 1) == pair.a().outer->Momentum(0, 1));
  CHECK(pair.b().returned_bytes == pair.b().received_bytes);
}

TEST_CASE_METHOD(Fixture, "a donor that does not hold the state any more says so") {
  engine::StateId other = state;
  other.round = 5;
  Fetch(other);
  pair.Until([&] { return !pair.b().failed_states.empty(); });
  CHECK(pair.b().failed_states[0].state == other);
}

TEST_CASE_METHOD(Fixture, "state that does not match its hash is never adopted") {
  pair.a().lie_about_state = true;
  Fetch(state);
  pair.Until([&] { return !pair.b().failed_states.empty(); });
  CHECK(pair.b().states.empty());
  CHECK(pair.b().adopted.empty());
  REQUIRE(pair.b().notes.size() == 1);
}

TEST_CASE_METHOD(Fixture, "a donor that goes away is asked again when it is named again") {
  pair.wire.lose = [](const exchange::ChunkAddress& address) {
    return address.kind == exchange::ChunkKind::kState && address.index == 1;
  };
  Fetch(state);
  pair.Until([&] { return pair.b().received_bytes > 0; });
  pair.wire.lose = [](const exchange::ChunkAddress&) { return false; };
  pair.b().exchange->OnPeerDown(0);
  pair.Until([&] { return !pair.b().states.empty(); });
  CHECK(pair.b().states[0].state == state);
}

}  // namespace
}  // namespace causeway::testing
