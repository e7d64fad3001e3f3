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
    Alone(1);
  }
  // The donor commits a round by itself.
  void Alone(uint32_t round) {
    Side& donor = pair.a();
    donor.model.Write(0, [round](uint64_t i) { return Noise(1 + round, i); });
    const engine::Reduce order = pair.Order(round, {4});
    donor.Start(round, 4, engine::ClusterSet{0}, round);
    donor.rounds().Reduce(order);
    pair.Until([&] { return donor.held.size() == round; });
    donor.rounds().Commit(pair.CommitOf(order, engine::OwnPart::kCounted));
    donor.rounds().Release({7, round});
    pair.Until([&] { return donor.committed.size() == round; });
    state = donor.committed.back().record.state;
  }
  void Fetch(engine::StateId wanted) {
    pair.b().exchange->state(0).Fetch({0, wanted, engine::ClusterSet{0}});
  }
};

TEST_CASE_METHOD(Fixture, "a joiner ends with the donor's values, momentum and hash") {
  pair.a().hold_state = true;
  Fetch(state);
  pair.Until([&] { return pair.a().held_state.size() == 2; });
  pair.a().ReleaseState();
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
  // Values and momentum, two chunks each, no faster than they arrive.
  CHECK(pair.a().state_in_flight_max == 2);
}

TEST_CASE_METHOD(Fixture, "a joiner whose link ends is not served any further; commits go on") {
  Side& donor = pair.a();
  pair.b().exchange.reset();
  donor.exchange->state(0).OnRequest(1, state, {});
  donor.exchange->OnPeerDown(1);
  Alone(2);
  pair.Until([&] { return donor.state_in_flight == 0; });
}

TEST_CASE("a joiner that takes nothing does not hold up rounds for ever") {
  Setup setup{"int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements};
  setup.serve_patience_us = 20'000;
  Group group(2, setup);
  Side& donor = group.a();
  donor.model.Write(0, [](uint64_t i) { return Noise(1, i); });
  donor.Adopt({});
  group.Until([&] { return !donor.adopted.empty(); });
  donor.shut = true;
  const auto round = [&](int64_t number) {
    const engine::Reduce order = group.Order(number, {4});
    donor.Start(number, 4, engine::ClusterSet{0}, static_cast<uint64_t>(number));
    donor.rounds().Reduce(order);
    const auto rounds = static_cast<size_t>(number);
    group.Until([&] { return donor.held.size() == rounds; });
    donor.rounds().Commit(group.CommitOf(order, engine::OwnPart::kCounted));
    donor.rounds().Release({7, static_cast<uint64_t>(number)});
    group.Until([&] { return donor.committed.size() == rounds; });
  };
  const engine::StateId first = donor.exchange->state(0).committed();
  group.b().exchange->state(0).Fetch({0, first, engine::ClusterSet{0}});
  group.Until([&] { return donor.shut_in.size() == 2; });
  round(1);
  group.Until([&] { return group.b().failed_states.size() == 1; });
  // Until what is on its way moves, it is refused at once; then it is served.
  const engine::StateId second = donor.exchange->state(0).committed();
  group.b().exchange->state(0).Fetch({0, second, engine::ClusterSet{0}});
  group.Until([&] { return group.b().failed_states.size() == 2; });
  CHECK_FALSE(donor.exchange->state(0).serving());
  donor.shut = false;
  for (size_t i = 0; i < donor.shut_in.size(); ++i) donor.exchange->OnStateChunkDone(0);
  group.b().exchange->state(0).Fetch({0, second, engine::ClusterSet{0}});
  group.Until([&] { return !group.b().states.empty(); });
  round(2);
}

TEST_CASE("a state is adopted after the older commit that is held back, not over it") {
  Pair pair("int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements);
  for (auto& side : pair.sides) {
    side->model.Write(0, [](uint64_t i) { return Noise(1, i); });
    side->Adopt({});
  }
  pair.Until([&] { return !pair.a().adopted.empty() && !pair.b().adopted.empty(); });
  const engine::ClusterSet both = engine::ClusterSet::FirstOf(2);
  const engine::Reduce order = pair.Order(1, {4, 4});
  for (auto& side : pair.sides) {
    side->model.Write(0, [](uint64_t i) { return Noise(2, i); });
    side->Start(1, 4, both, 1);
    side->rounds().Reduce(order);
  }
  pair.Until([&] { return !pair.a().held.empty() && !pair.b().held.empty(); });
  std::shared_ptr<void> hold = pair.b().exchange->HoldCommits();
  for (auto& side : pair.sides) {
    side->rounds().Commit(pair.CommitOf(order, engine::OwnPart::kCounted));
    side->rounds().Release({7, 1});
  }
  pair.Until([&] { return !pair.a().committed.empty(); });
  // The other cluster goes on alone, and is what this one then follows.
  const engine::Reduce alone = pair.Order(2, {4});
  pair.a().Start(2, 4, engine::ClusterSet{0}, 2);
  pair.a().rounds().Reduce(alone);
  pair.Until([&] { return pair.a().held.size() == 2; });
  pair.a().rounds().Commit(pair.CommitOf(alone, engine::OwnPart::kCounted));
  pair.a().rounds().Release({7, 2});
  pair.Until([&] { return pair.a().committed.size() == 2; });
  engine::AdoptState adopt;
  adopt.state = pair.a().committed.back().record.state;
  adopt.forward = true;
  pair.b().exchange->state(0).Fetch({0, adopt.state, engine::ClusterSet{0}});
  pair.Until([&] { return !pair.b().states.empty(); });
  pair.b().exchange->state(0).Adopt(adopt);
  CHECK(pair.b().rounds().committing());
  hold.reset();
  pair.Until([&] { return pair.b().adopted.size() == 2; });
  CHECK(pair.b().committed.size() == 1);
  CHECK(pair.b().outer->StateHash(0) == pair.a().outer->StateHash(0));
  CHECK(pair.b().endpoint->HasResidual(0));
}

TEST_CASE_METHOD(Fixture, "a contribution that comes before the state it builds on is kept") {
  for (uint32_t round : {2u, 3u, 4u}) Alone(round);
  const engine::ClusterSet both = engine::ClusterSet::FirstOf(2);
  const engine::Reduce order = pair.Order(5, {4, 4});
  pair.a().model.Write(0, [](uint64_t i) { return Noise(9, i); });
  pair.a().Start(5, 4, both, 5);
  pair.a().rounds().Reduce(order);
  pair.Until([&] { return pair.a().rounds().Progress().chunks_encoded == 2; });
  pair.Until([&] { return pair.b().received_bytes > 0; });
  Fetch(state);
  pair.Until([&] { return !pair.b().states.empty(); });
  engine::AdoptState adopt;
  adopt.state = state;
  pair.b().exchange->state(0).Adopt(adopt);
  pair.Until([&] { return !pair.b().adopted.empty(); });
  pair.b().model.Write(0, [](uint64_t i) { return Noise(10, i); });
  pair.b().Start(5, 4, both, 5);
  pair.b().rounds().Reduce(order);
  pair.Until([&] { return pair.a().held.size() == 5 && pair.b().held.size() == 1; });
  CHECK(pair.a().held.back().result == pair.b().held.back().result);
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
  const auto progress = [&] { return pair.b().exchange->state(0).Progress(); };
  pair.Until([&] { return pair.b().received_bytes > 0 && progress()->bytes > 0; });
  CHECK(progress()->bytes < progress()->bytes_total);
  CHECK(progress()->bytes_total > 2 * kElements * sizeof(float));  // values and momentum
  CHECK(progress()->donors == engine::ClusterSet{0});
  pair.wire.lose = [](const exchange::ChunkAddress&) { return false; };
  pair.b().exchange->OnPeerDown(0);
  pair.b().exchange->OnPeerUp(0);
  pair.Until([&] { return !pair.b().states.empty(); });
  CHECK(pair.b().states[0].state == state);
  CHECK_FALSE(progress());
}

TEST_CASE_METHOD(Fixture,
                 "what was asked of a donor without a link is asked when the link is back") {
  pair.b().linked = false;
  Fetch(state);
  pair.b().exchange->OnPeerDown(0);
  pair.b().linked = true;
  pair.b().exchange->OnPeerUp(0);
  pair.Until([&] { return !pair.b().states.empty(); });
  CHECK(pair.b().states[0].state == state);
}

TEST_CASE_METHOD(Fixture, "a fetch that is ordered again is asked for again") {
  pair.b().linked = false;
  Fetch(state);
  pair.b().linked = true;
  Fetch(state);
  pair.Until([&] { return !pair.b().states.empty(); });
  CHECK(pair.b().states[0].state == state);
}

// Two donors that hold the same, and a joiner.
struct TwoDonors {
  Group group;
  engine::StateId state;

  explicit TwoDonors(int64_t patience_us = 30'000'000)
      : group(3, {"int4:ef",
                  {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5},
                  4 * kElements,
                  1,
                  memory::Budget::kUnlimited,
                  patience_us}) {
    group.a().model.Write(0, [](uint64_t i) { return Noise(1, i); });
    group.a().Adopt({});
    group.Until([&] { return !group.a().adopted.empty(); });
    group.a().exchange->state(0).SetCommitted(state);
    group.b().exchange->state(0).Fetch({0, state, engine::ClusterSet{0}});
    group.Until([&] { return !group.b().states.empty(); });
    engine::AdoptState adopt;
    adopt.state = state;
    group.b().exchange->state(0).Adopt(adopt);
    group.Until([&] { return !group.b().adopted.empty(); });
    Forget();
  }
  void Forget() {
    for (auto& side : group.sides) side->sent_bytes.clear();
  }
  Side& joiner() { return group.side(2); }
  void Fetch() { joiner().exchange->state(0).Fetch({0, state, engine::ClusterSet{0, 1}}); }
  uint64_t Sent(Side& donor) { return donor.sent_bytes[{exchange::ChunkKind::kState, 2}]; }
  void Ends() {
    group.Until([&] { return !joiner().states.empty(); });
    engine::AdoptState adopt;
    adopt.state = state;
    joiner().exchange->state(0).Adopt(adopt);
    group.Until([&] { return !joiner().adopted.empty(); });
    CHECK(joiner().outer->StateHash(0) == group.a().outer->StateHash(0));
    CHECK(joiner().Value(0) == group.a().Value(0));
    CHECK(joiner().failed_states.empty());
  }
  // Pieces from that donor do not arrive.
  void Lose(engine::Incarnation donor) {
    group.wire.lose = [donor](const exchange::ChunkAddress& address) {
      return address.kind == exchange::ChunkKind::kState && address.incarnation == donor;
    };
  }
};

TEST_CASE_METHOD(TwoDonors, "donors send a share each, and nothing twice") {
  Fetch();
  group.Until([&] { return joiner().exchange->state(0).Progress()->donors.Count() == 2; });
  Ends();
  const uint64_t both = Sent(group.a()) + Sent(group.b());
  CHECK(both == joiner().received_bytes);
  CHECK(both < 2 * 4 * kElements * sizeof(float) + 10'000);
  CHECK(Sent(group.a()) > both / 3);
  CHECK(Sent(group.b()) > both / 3);
}

TEST_CASE_METHOD(TwoDonors, "a donor that goes away costs its share, not the transfer") {
  Lose(101);
  Fetch();
  group.Until([&] { return Sent(group.a()) > 0 && Sent(group.b()) > 0; });
  const uint64_t share = Sent(group.a());
  joiner().exchange->OnPeerDown(1);
  Ends();
  CHECK(share > 0);
  CHECK(Sent(group.a()) == joiner().received_bytes);  // each piece once
  CHECK(joiner().notes.empty());
}

TEST_CASE("a donor that sends nothing is left out while others are there") {
  TwoDonors donors(100'000);
  donors.Lose(101);
  donors.Fetch();
  donors.Ends();
  CHECK(donors.Sent(donors.group.a()) == donors.joiner().received_bytes);
}

TEST_CASE("a fetch ends where one donor is silent and the others have gone") {
  TwoDonors donors(100'000);
  donors.group.wire.lose = [](const exchange::ChunkAddress& address) {
    return address.kind == exchange::ChunkKind::kState;
  };
  donors.Fetch();
  const auto asked = [&] { return donors.joiner().exchange->state(0).Progress()->donors; };
  donors.group.Until([&] { return asked().Count() == 1; });
  donors.joiner().exchange->OnPeerDown(*asked().begin());
  donors.group.Until([&] { return !donors.joiner().failed_states.empty(); });
  CHECK(donors.joiner().failed_states[0].state == donors.state);
}

TEST_CASE_METHOD(TwoDonors, "where donors name different hashes all comes from one, then another") {
  group.a().lie_about_state = true;
  Fetch();
  Ends();
  CHECK(joiner().notes.size() == 2);  // two did not agree; the first alone was wrong
}

TEST_CASE("pieces are asked of one donor at a time") {
  exchange::PieceShares shares(5);
  auto wanted = shares.Share(engine::ClusterSet{1, 3});
  REQUIRE(wanted.size() == 2);
  for (uint32_t piece = 0; piece < 5; ++piece) {
    CHECK(wanted[1].Contains(piece) != wanted[3].Contains(piece));
  }
  CHECK(shares.Share(engine::ClusterSet{1, 3}).empty());
  const uint32_t here = wanted[3].Contains(1) ? 1 : 0;
  shares.Came(here);
  shares.TakeBack(3);
  CHECK_FALSE(shares.Awaits(3));
  wanted = shares.Share(engine::ClusterSet{1});
  REQUIRE(wanted.size() == 1);
  CHECK_FALSE(wanted[1].Contains(here));
  CHECK_FALSE(shares.Complete());
  exchange::PieceSet all;
  CHECK(all.Contains(4));
  CHECK(all.Fits(5));
  CHECK_FALSE(exchange::PieceSet(9).Fits(5));
}

TEST_CASE("rounds leave a state room in the window, and miss nothing for it") {
  Setup setup{"int8", {outer::RuleSpec::Kind::kAverage}, 4 << 18};
  const uint64_t chunk = compression::EncodedSizeMax(Codec(setup.codec), 1 << 18);
  setup.window_bytes = 4 * chunk;
  Group group(2, setup);
  Side& donor = group.a();
  Side& joiner = group.b();
  for (auto& side : group.sides) {
    side->model.Write(0, [](uint64_t i) { return Noise(1, i); });
    side->Adopt({});
  }
  group.Until([&] { return !donor.adopted.empty() && !joiner.adopted.empty(); });
  const auto kept = [&] { return joiner.received_bytes - joiner.returned_bytes; };
  const engine::ClusterSet both = engine::ClusterSet::FirstOf(2);
  // What was sent of a round that is decided by now is of no use to anybody.
  donor.Start(1, 4, both, 1);
  group.Until([&] { return donor.rounds().Progress().chunks_encoded == 4 && kept() >= 4 * chunk; });
  const engine::Reduce alone = group.Order(1, {4});
  donor.rounds().Reduce(alone);
  group.Until([&] { return !donor.held.empty(); });
  donor.rounds().Commit(group.CommitOf(alone, engine::OwnPart::kCounted));
  donor.rounds().Release({7, 1});
  group.Until([&] { return !donor.committed.empty(); });
  engine::AdoptState adopt;
  adopt.state = donor.committed.back().record.state;
  adopt.forward = true;
  joiner.rounds().Expect(adopt.state.round);
  CHECK(kept() == 0);
  // A round whose base is still on its way has half of the window.
  donor.model.Write(0, [](uint64_t i) { return Noise(2, i); });
  const uint64_t before = joiner.received_bytes;
  donor.Start(2, 4, both, 2);
  group.Until([&] { return joiner.received_bytes >= before + 4 * chunk; });
  CHECK(kept() == 2 * chunk);
  joiner.exchange->state(0).Fetch({0, adopt.state, engine::ClusterSet{0}});
  group.Until([&] { return !joiner.states.empty(); });
  joiner.exchange->state(0).Adopt(adopt);
  group.Until([&] { return joiner.adopted.size() == 2; });
  joiner.model.Write(0, [](uint64_t i) { return Noise(3, i); });
  const engine::Reduce order = group.Order(2, {4, 4});
  joiner.Start(2, 4, both, 2);
  for (auto& side : group.sides) side->rounds().Reduce(order);
  group.Until([&] { return donor.held.size() == 2 && joiner.held.size() == 1; });
  CHECK(donor.held.back().result == joiner.held.back().result);
  CHECK(joiner.chunks_requested == 2);
}

TEST_CASE_METHOD(Fixture, "a value is not replaced while it is being read") {
  pair.b().model.Write(0, [](uint64_t i) { return Noise(5, i); });
  pair.b().Adopt({});
  pair.Until([&] { return !pair.b().adopted.empty(); });
  // Round 2's slot is round 0's, which a reader of the old lineage looks at.
  Alone(2);
  Fetch(state);
  pair.Until([&] { return !pair.b().states.empty(); });
  const std::vector<float> before(pair.b().Value(0).begin(), pair.b().Value(0).end());
  std::shared_ptr<void> hold = pair.b().exchange->HoldCommits();
  engine::AdoptState adopt;
  adopt.state = state;
  pair.b().exchange->state(0).Adopt(adopt);
  CHECK(pair.b().rounds().replacing());
  // Another fragment's work goes through the same workers: were it replaced, it would be by now.
  bool done = false;
  pair.workers.Submit([&] { pair.loop->Post([&] { done = true; }); });
  pair.Until([&] { return done; });
  CHECK(pair.b().endpoint->Holds(0, 0));
  CHECK(absl::Span<const float>(before) == pair.b().Value(0));
  hold.reset();
  pair.Until([&] { return pair.b().adopted.size() == 2; });
  CHECK(pair.b().Value(2) == pair.a().Value(2));
}

TEST_CASE_METHOD(Fixture, "commits wait while values are being read") {
  std::shared_ptr<void> hold = pair.a().exchange->HoldCommits();
  pair.a().model.Write(0, [](uint64_t i) { return Noise(3, i); });
  const engine::Reduce order = pair.Order(2, {4});
  pair.a().Start(2, 4, engine::ClusterSet{0}, 2);
  pair.a().rounds().Reduce(order);
  pair.Until([&] { return pair.a().held.size() == 2; });
  pair.a().rounds().Commit(pair.CommitOf(order, engine::OwnPart::kCounted));
  CHECK(pair.a().rounds().committing());
  CHECK_FALSE(pair.a().endpoint->Holds(0, 2));
  CHECK(pair.a().endpoint->Holds(0, 1));
  hold.reset();
  pair.Until([&] { return pair.a().committed.size() == 2; });
}

}  // namespace
}  // namespace causeway::testing
