// Rounds by chunk owner: same bytes on all members, whatever the plans, attempts, deaths and moves
// of ownership; nothing is lost in the second encoding.
#include <cmath>
#include <numeric>

#include "daemon/exchange/routing.h"
#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = 5 * (1 << 18) + 1000;  // six chunks

planning::Plan ByOwner(const std::string& codec, std::vector<uint32_t> parts) {
  planning::Plan plan;
  plan.codec = Codec(codec);
  plan.route = planning::Route::kOwner;
  for (engine::ClusterId id = 0; id < parts.size(); ++id) plan.parts[id] = parts[id];
  return plan;
}

bool Equal(absl::Span<const float> a, absl::Span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// n clusters that hold zeros as round 0.
struct Owners : Group {
  Owners(int clusters, Setup setup) : Group(clusters, setup) {
    for (auto& side : sides) {
      for (uint32_t f = 0; f < setup.fragments; ++f) {
        side->model.Write(f, [](uint64_t) { return 0.0f; });
        side->Adopt({}, f);
      }
    }
    Until([&] {
      for (auto& side : sides) {
        if (side->adopted.size() < setup.fragments) return false;
      }
      return true;
    });
  }

  engine::ClusterSet members() const {
    engine::ClusterSet out;
    for (engine::ClusterId id = 0; id < sides.size(); ++id) {
      if (sides[id]->exchange) out.Insert(id);
    }
    return out;
  }
  // Contributor i names plans[i].
  engine::Reduce By(engine::Reduce order, const std::vector<engine::PlanId>& plans) {
    for (engine::Contributor& c : order.contributors) c.plan = plans[c.cluster];
    return order;
  }
  void Contribute(int64_t round, const std::vector<uint64_t>& weights,
                  const std::vector<engine::PlanId>& plans) {
    for (engine::ClusterId id : members()) {
      if (weights[id] == 0) continue;
      side(id).model.Write(
          0, [&](uint64_t i) { return Delta(id, round, i) + side(id).Value(round - 1)[i]; });
      side(id).Start(round, weights[id], members(), static_cast<uint64_t>(round), plans[id]);
    }
  }
  // What the cluster's snapshot is away from the value, with the other sign of D.
  static float Delta(engine::ClusterId id, int64_t round, uint64_t i) {
    return Noise(100 * static_cast<uint64_t>(round) + id, i);
  }
  void Held() {
    Until([&] {
      for (engine::ClusterId id : members()) {
        if (side(id).held.empty()) return false;
      }
      return true;
    });
    const engine::ResultHeld& first = side(*members().begin()).held.back();
    for (engine::ClusterId id : members()) {
      CHECK(side(id).held.back().result == first.result);
      CHECK(side(id).held.back().previous_state == first.previous_state);
      CHECK(side(id).held.size() == 1);
    }
  }
  void Commit(const engine::Reduce& order) {
    for (engine::ClusterId id : members()) {
      side(id).held.clear();
      engine::OwnPart own = engine::OwnPart::kNone;
      if (side(id).endpoint->open(0)) own = engine::OwnPart::kExcluded;
      for (const engine::Contributor& c : order.contributors) {
        if (c.cluster == id) own = engine::OwnPart::kCounted;
      }
      const size_t before = side(id).committed.size();
      side(id).rounds().Commit(CommitOf(order, own));
      side(id).rounds().Release({7, static_cast<uint64_t>(order.round)});
      Until([&] { return side(id).committed.size() > before; });
    }
    const absl::Span<const float> value = side(*members().begin()).Value(order.round);
    for (engine::ClusterId id : members()) REQUIRE(Equal(side(id).Value(order.round), value));
  }
  void Round(int64_t round, const std::vector<uint64_t>& weights,
             const std::vector<engine::PlanId>& plans) {
    std::vector<engine::Contributor> who;
    engine::Reduce order = By(Order(round, weights), plans);
    std::erase_if(order.contributors, [&](const engine::Contributor& c) {
      return !members().Contains(c.cluster) || c.weight == 0;
    });
    // Half of them are told before anything is encoded.
    for (engine::ClusterId id : members()) {
      if (id % 2 == 0) side(id).rounds().Reduce(order);
    }
    Contribute(round, weights, plans);
    for (engine::ClusterId id : members()) {
      if (id % 2 == 1) side(id).rounds().Reduce(order);
    }
    Held();
    Commit(order);
  }
  void CreditsAreBack() {
    for (engine::ClusterId id : members()) {
      Until([&] { return side(id).returned_bytes == side(id).received_bytes; });
    }
  }
};

TEST_CASE("owners: rounds of three and four clusters end in the same bytes; fewer are sent") {
  for (int n : {3, 4}) {
    Owners group(n, {"int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements});
    std::vector<uint32_t> parts(static_cast<size_t>(n), 0);
    parts[0] = planning::kShareParts / 2;
    for (size_t i = 1; i < parts.size(); ++i)
      parts[i] = planning::kShareParts / 2 / (parts.size() - 1);
    parts[1] += planning::kShareParts - std::accumulate(parts.begin(), parts.end(), 0u);
    group.Know(1, ByOwner("int4:ef", parts));
    const std::vector<uint64_t> weights(static_cast<size_t>(n), 3);
    const std::vector<engine::PlanId> plans(static_cast<size_t>(n), 1);
    for (int64_t round = 1; round <= 3; ++round) group.Round(round, weights, plans);
    group.CreditsAreBack();
    const auto whole = static_cast<double>(3 * kElements) * 0.53;
    for (auto& side : group.sides) {
      double sent = 0;
      for (const auto& [name, bytes] : side->sent_bytes) sent += static_cast<double>(bytes);
      CHECK(side->chunks_requested == 0);
      CHECK(sent < 0.9 * whole * (n - 1));
    }
  }
}

// Over many rounds the sum of what was applied follows the sum of the means: what encoding loses
// comes back. `plan_of(round)` changes owners on the way.
double Drift(const std::string& codec, const std::function<engine::PlanId(int64_t)>& plan_of) {
  constexpr uint64_t kFew = (1 << 18) + 300;  // two chunks
  constexpr int64_t kRounds = 12;
  Owners group(3, {codec, {}, kFew});
  group.Know(1, ByOwner(codec, {4096, 0, 0}));
  group.Know(2, ByOwner(codec, {0, 4096, 0}));
  group.Know(3, {Codec(codec), {}, planning::Route::kDirect, {}, ""});
  std::vector<double> sum(kFew, 0);
  for (int64_t round = 1; round <= kRounds; ++round) {
    const std::vector<uint64_t> weights = {1, 2, 5};
    group.Round(round, weights, std::vector<engine::PlanId>(3, plan_of(round)));
    for (uint64_t i = 0; i < kFew; ++i) {
      for (engine::ClusterId id : {0, 1, 2}) {
        sum[i] += Owners::Delta(id, round, i) * static_cast<double>(weights[id]) / 8;
      }
    }
  }
  double squares = 0;
  for (uint64_t i = 0; i < kFew; ++i) {
    const double difference = group.side(0).Value(kRounds)[i] - sum[i];
    squares += difference * difference;
  }
  return std::sqrt(squares / kFew);
}

TEST_CASE("owners: what the second encoding lost comes back, also when ownership moves") {
  const double without = Drift("2bit", [](int64_t) { return 1; });
  const double stays = Drift("2bit:ef", [](int64_t) { return 1; });
  const double moves = Drift("2bit:ef", [](int64_t round) { return 1 + round / 4 % 3; });
  INFO("rms of the difference: " << without << " without feedback, " << stays << " one owner, "
                                 << moves << " as ownership moves");
  CHECK(stays < 0.5 * without);
  CHECK(moves < 1.5 * stays);
}

TEST_CASE("owners: plans may differ within a round; misrouted chunks are asked for") {
  Owners group(3, {"int4:ef", {}, kElements});
  planning::Plan mixed = ByOwner("int8:ef", {2048, 0, 2048});
  mixed.codecs[1] = Codec("nf4:ef");
  group.Know(5, ByOwner("int4:ef", {0, 4096, 0}));
  group.Know(9, mixed);
  group.Round(1, {1, 1, 1}, {0, 5, 9});        // of plan 9 all are told
  CHECK(group.side(0).chunks_requested == 3);  // what cluster 1 sends to itself by plan 5
  CHECK(group.side(2).chunks_requested == 3);
  CHECK(group.side(1).chunks_requested == 0);
  group.Round(2, {1, 1, 1}, {9, 9, 9});
  group.Round(3, {1, 1, 1}, {0, 0, 0});
  group.Round(4, {1, 2, 1}, {5, 9, 5});
  for (auto& side : group.sides) CHECK(side->bad_chunks.empty());
  group.CreditsAreBack();
}

TEST_CASE("owners: a round waits for a plan that is not known yet") {
  Owners group(3, {"int4:ef", {}, kElements});
  const engine::Reduce order = group.By(group.Order(1, {1, 1, 1}), {4, 4, 4});
  for (auto& side : group.sides) side->rounds().Reduce(order);
  group.Contribute(1, {1, 1, 1}, {4, 4, 4});
  for (auto& side : group.sides) CHECK(side->notes.size() == 1);
  group.Know(4, ByOwner("int4:ef", {1366, 1365, 1365}));
  group.Held();
  group.Commit(order);
}

TEST_CASE("owners: an owner that dies is replaced; the same bytes go again in the next epoch") {
  Owners group(4, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {0, 0, 2048, 2048}));
  const std::vector<engine::PlanId> plans(4, 1);
  group.Round(1, {1, 1, 1, 1}, plans);
  // Cluster 3 sends no result and dies.
  group.wire.lose = [](const exchange::ChunkAddress& address) {
    return address.kind == exchange::ChunkKind::kResult && address.incarnation == 103;
  };
  const engine::Reduce all = group.By(group.Order(2, {1, 1, 1, 1}), plans);
  group.Contribute(2, {1, 1, 1, 1}, plans);
  for (auto& side : group.sides) side->rounds().Reduce(all);
  group.Until([&] { return group.side(0).rounds().Progress().chunks_reduced == 3; });
  group.side(3).exchange.reset();
  group.Install({2, 0}, engine::ClusterSet{0, 1, 2});
  CHECK(group.side(0).notes.size() == 1);  // its residual is lost, and reported
  const engine::Reduce three = group.By(group.Order(2, {1, 1, 1}), plans);
  for (engine::ClusterId id : {0, 1, 2}) {
    engine::ResendContribution again;
    again.round = 2;
    again.epoch = {2, 0};
    again.op = {7, 2};
    again.weight = 1;
    again.plan = 1;
    again.to = engine::ClusterSet{0, 1, 2};
    group.side(id).rounds().Resend(again);
    group.side(id).rounds().Reduce(three);
  }
  group.Held();
  group.Commit(three);
  group.Round(3, {1, 1, 1, 0}, plans);
  // Down to two they exchange directly.
  group.side(2).exchange.reset();
  group.Install({3, 0}, engine::ClusterSet{0, 1});
  group.Round(4, {1, 1, 0, 0}, plans);
}

TEST_CASE("owners: attempts without a contributor, and back to one that counted before") {
  Owners group(3, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {2048, 2048, 0}));
  const std::vector<engine::PlanId> plans(3, 1);
  const engine::Reduce all = group.By(group.Order(1, {1, 1, 1}), plans);
  group.Contribute(1, {1, 1, 1}, plans);
  for (auto& side : group.sides) side->rounds().Reduce(all);
  group.Held();
  const engine::Hash256 first = group.side(0).held.back().result;
  const auto attempt = [&](engine::Reduce order, uint32_t number) {
    order.attempt = number;
    for (auto& side : group.sides) {
      side->held.clear();
      side->rounds().DropAttempts({0, 1, order.epoch, number - 1});
      side->rounds().Reduce(order);
    }
    group.Held();
    return order;
  };
  engine::Reduce two = all;
  two.contributors.erase(two.contributors.begin() + 1);
  attempt(two, 1);
  CHECK(group.side(0).held.back().result != first);
  attempt(two, 2);  // the same work under another name
  const engine::Reduce last = attempt(all, 3);
  CHECK(group.side(0).held.back().result == first);  // nothing of the attempts between is left
  group.Commit(last);
  group.Round(2, {1, 1, 1}, plans);
  group.CreditsAreBack();
}

TEST_CASE("owners: results of an attempt that went on without a member make room for the next") {
  Owners group(3, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {4096, 0, 0}));
  const std::vector<engine::PlanId> plans(3, 1);
  const engine::Reduce all = group.By(group.Order(1, {1, 1, 1}), plans);
  group.Contribute(1, {1, 1, 1}, plans);
  for (engine::ClusterId id : {0, 1}) group.side(id).rounds().Reduce(all);  // the third withdrew
  group.Until([&] { return !group.side(0).held.empty() && !group.side(1).held.empty(); });
  group.Until([&] { return group.side(2).received_bytes == group.side(1).received_bytes; });
  CHECK(group.side(2).returned_bytes == 0);
  engine::Reduce two = group.By(group.Order(1, {1, 1}), plans);
  two.attempt = 1;
  for (auto& side : group.sides) {
    side->held.clear();
    side->rounds().Reduce(two);
  }
  group.Held();
  CHECK(group.side(2).returned_bytes == group.side(2).received_bytes);  // before the commit
  group.Commit(two);
}

TEST_CASE("owners: a member without a trainer owns chunks and takes results") {
  Owners group(3, {"int8:ef", {}, kElements});
  group.Know(1, ByOwner("int8:ef", {0, 0, 4096}));
  group.Round(1, {2, 3, 0}, {1, 1, 1});
  group.Round(2, {2, 3, 4}, {1, 1, 1});
}

TEST_CASE("owners: a damaged result is found and asked for again") {
  Owners group(3, {"int8", {}, kElements});
  group.Know(1, ByOwner("int8", {4096, 0, 0}));
  auto bytes = group.side(1).received->Allocate(500);
  std::memset(bytes->data(), 0x33, 500);
  exchange::ChunkAddress forged;
  forged.kind = exchange::ChunkKind::kResult;
  forged.epoch = {1, 0};
  forged.round = 1;
  forged.incarnation = 100;
  forged.index = 2;
  group.side(1).received_bytes += 500;
  group.side(1).exchange->OnChunk(0, forged, *std::move(bytes));
  group.Round(1, {1, 1, 1}, {1, 1, 1});
  CHECK(group.side(1).bad_chunks.size() == 1);
  CHECK(group.side(1).chunks_requested == 1);
  group.CreditsAreBack();
}

TEST_CASE("owners: what was asked for is asked again on the next link") {
  Owners group(3, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {4096, 0, 0}));
  group.Know(2, ByOwner("int4:ef", {0, 4096, 0}));
  group.side(1).linked = false;  // what it asks for is lost
  const engine::Reduce order = group.By(group.Order(1, {1, 1, 1}), {1, 2, 2});
  group.Contribute(1, {1, 1, 1}, {1, 2, 2});
  for (auto& side : group.sides) side->rounds().Reduce(order);
  group.Until([&] { return group.side(0).rounds().Progress().chunks_encoded == 6; });
  CHECK(group.side(1).chunks_requested == 6);
  group.side(1).linked = true;
  group.side(1).exchange->OnPeerUp(0);
  group.Held();
  group.Commit(order);
}

TEST_CASE("owners: what was asked for in one epoch is asked for again in the next") {
  Owners group(3, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {4096, 0, 0}));
  group.Know(2, {Codec("int4:ef"), {}, planning::Route::kDirect, {}, ""});
  const std::vector<engine::PlanId> plans = {1, 2, 2};  // cluster 0 sends to itself alone
  for (auto& side : group.sides) side->linked = false;  // what they ask for is lost
  const engine::Reduce before = group.By(group.Order(1, {1, 1, 1}), plans);
  group.Contribute(1, {1, 1, 1}, plans);
  for (auto& side : group.sides) side->rounds().Reduce(before);
  group.Until([&] { return !group.side(0).held.empty(); });
  for (auto& side : group.sides) side->linked = true;
  group.Install({2, 0}, engine::ClusterSet{0, 1, 2});
  const engine::Reduce after = group.By(group.Order(1, {1, 1, 1}), plans);
  for (engine::ClusterId id : {0, 1, 2}) {
    engine::ResendContribution again;
    again.round = 1;
    again.epoch = {2, 0};
    again.op = {7, 1};
    again.weight = 1;
    again.plan = plans[id];
    again.to = engine::ClusterSet{0, 1, 2};
    group.side(id).held.clear();
    group.side(id).rounds().Resend(again);
    group.side(id).rounds().Reduce(after);
  }
  group.Held();
  group.Commit(after);
}

TEST_CASE("owners: a contribution keeps its plan when many newer ones have come") {
  Owners group(3, {"int4:ef", {}, kElements});
  group.Know(1, ByOwner("int4:ef", {2048, 2048, 0}));
  const std::vector<engine::PlanId> plans(3, 1);
  const engine::Reduce order = group.By(group.Order(1, {1, 1, 1}), plans);
  for (auto& side : group.sides) side->rounds().Reduce(order);
  group.Contribute(1, {1, 1, 1}, plans);
  for (engine::PlanId id = 2; id < 30; ++id) group.Know(id, ByOwner("int8:ef", {0, 0, 4096}));
  REQUIRE(group.side(0).book.Find(1) == nullptr);
  group.Held();
  group.Commit(order);
}

TEST_CASE("owners: fewer elements than clusters, one, none, and fewer chunks than owners") {
  for (uint64_t elements : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1 << 18} + 1}) {
    Owners group(4, {"int4:ef", {}, elements});
    group.Know(1, ByOwner("int4:ef", {1024, 1024, 1024, 1024}));
    group.Round(1, {1, 1, 1, 1}, {1, 1, 1, 1});
    group.Round(2, {1, 0, 2, 1}, {1, 1, 1, 1});
    group.CreditsAreBack();
  }
}

TEST_CASE("owners: one who joins owns chunks from its first epoch on") {
  Owners group(4, {"int4:ef", {outer::RuleSpec::Kind::kNesterov, 0.7, 0.5}, kElements});
  group.Know(1, ByOwner("int4:ef", {1024, 1024, 1024, 1024}));
  group.Install({2, 0}, engine::ClusterSet{0, 1, 2});
  std::unique_ptr<exchange::Exchange> joiner = std::move(group.side(3).exchange);
  group.Round(1, {1, 1, 1, 0}, {1, 1, 1, 1});
  group.Round(2, {1, 1, 1, 0}, {1, 1, 1, 1});
  group.side(3).exchange = std::move(joiner);
  const engine::StateId state = group.side(1).committed.back().record.state;
  group.side(3).exchange->state(0).Fetch({0, state, engine::ClusterSet{1, 2}});
  group.Until([&] { return !group.side(3).states.empty(); });
  engine::AdoptState adopt;
  adopt.state = state;
  group.side(3).exchange->state(0).Adopt(adopt);
  group.Until([&] { return group.side(3).adopted.size() == 2; });
  group.Install({3, 0}, engine::ClusterSet{0, 1, 2, 3});
  group.Round(3, {1, 1, 1, 1}, {1, 1, 1, 1});
  CHECK(group.side(3).sent_bytes[{exchange::ChunkKind::kResult, 0}] > 0);
  CHECK(group.side(1).outer->StateHash(0) == group.side(3).outer->StateHash(0));
}

TEST_CASE("owners are among the members, by share; up to two members have none") {
  const planning::Plan plan = ByOwner("int8", {2048, 1024, 1024, 0});
  const engine::ClusterSet all = engine::ClusterSet::FirstOf(4);
  const exchange::Owners owners = exchange::OwnersAmong(plan, all, 8);
  CHECK(std::count(owners.begin(), owners.end(), 0) == 4);
  CHECK(std::count(owners.begin(), owners.end(), 3) == 0);
  const exchange::Owners three = exchange::OwnersAmong(plan, engine::ClusterSet{1, 2, 3}, 8);
  CHECK(std::count(three.begin(), three.end(), 1) == 4);
  CHECK(std::count(three.begin(), three.end(), 2) == 4);
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != 0) CHECK(three[i] == owners[i]);  // who stays keeps what it has
  }
  CHECK(exchange::OwnersAmong(plan, engine::ClusterSet{0, 1}, 8).empty());
  const planning::Plan alone = ByOwner("int8", {4096, 0, 0, 0});
  CHECK(exchange::OwnersAmong(alone, engine::ClusterSet{1, 2, 3}, 6) ==
        exchange::Owners{1, 2, 3, 1, 2, 3});
}

}  // namespace
}  // namespace causeway::testing
