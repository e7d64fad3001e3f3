// A run that grows: its fragments go on with the same bytes, and the new ones begin.
#include "tests/unit/exchange/side.h"

namespace causeway::testing {
namespace {

constexpr uint64_t kElements = (1 << 18) + 1000;  // two chunks
const engine::ClusterSet kBoth{0, 1};
const outer::RuleSpec kRule{outer::RuleSpec::Kind::kNesterov, 0.7, 0.5};

Setup SetupOf(uint32_t stages) {
  Setup setup;
  setup.codec = "int4:ef";
  setup.rule = kRule;
  setup.elements = kElements;
  setup.fragments = stages;
  return setup;
}

// What a side has once its trainer came with a second tensor.
struct Larger {
  explicit Larger(Side& side, engine::ClusterId self, Group& group)
      : model(Records(), "int4:ef"), self(self) {
    std::vector<outer::FragmentShape> shapes;
    for (const local::FragmentRecord& fragment : model.layout->fragments()) {
      shapes.push_back({fragment.elements, kRule});
    }
    auto state = outer::OuterState::Create(shapes, compression::kChunkElements, model.account);
    auto set_aside = exchange::Reserve::Create(
        side.buffers.get(), model.account,
        exchange::Reserve::SizesFor(*model.layout, {Codec("int4:ef")}, true));
    REQUIRE((state.ok() && set_aside.ok()));
    REQUIRE(side.exchange->Quiet());
    std::shared_ptr<endpoint::LocalEndpoint> larger = std::move(model.endpoint);
    larger->TakeOver(*side.endpoint, 1);
    (*state)->TakeOver(*side.outer, 1);
    exchange::Context context;
    context.self = self;
    context.incarnation = 100u + self;
    context.plans = &side.book;
    context.layout = model.layout;
    context.endpoint = larger;
    context.outer = *std::move(state);
    context.loop = group.loop.get();
    context.workers = &group.workers;
    context.buffers = side.buffers.get();
    context.reserve = set_aside->get();
    context.port = &side;
    context.listener = &side;
    side.exchange->Grow(context, 1);
    side.endpoint = larger;
    side.outer = context.outer;
    side.reserve = *std::move(set_aside);
  }

  static std::vector<local::TensorRecord> Records() {
    std::vector<local::TensorRecord> out = {Record("w0", {kElements}), Record("new", {500})};
    out[1].stage = 1;
    return out;
  }

  Model model;
  engine::ClusterId self;
};

// One round of a fragment in which both count; its snapshots are written by `write`.
template <typename Write>
void Round(Group& group, int64_t round, engine::FragmentId fragment, Write write) {
  engine::Reduce order = group.Order(round, {1, 1});
  order.fragment = fragment;
  for (int id : {0, 1}) {
    write(id, static_cast<uint64_t>(10 * round + id));
    group.side(id).held.clear();
    group.side(id).Start(round, 1, kBoth, static_cast<uint64_t>(round), 0, fragment);
    group.side(id).rounds(fragment).Reduce(order);
  }
  group.Until([&] { return !group.a().held.empty() && !group.b().held.empty(); });
  CHECK(group.a().held.back().result == group.b().held.back().result);
  const size_t before = group.a().committed.size();
  for (int id : {0, 1}) {
    engine::Commit commit = group.CommitOf(order, engine::OwnPart::kCounted);
    commit.record.fragment = fragment;
    group.side(id).rounds(fragment).Commit(commit);
    group.side(id).rounds(fragment).Release({7, static_cast<uint64_t>(round)});
  }
  group.Until(
      [&] { return group.a().committed.size() > before && group.b().committed.size() > before; });
}

TEST_CASE("a run that grew goes on with the bytes of one that did not", "[growth]") {
  std::vector<engine::Hash256> states;
  for (const bool grows : {false, true}) {
    Group group(2, SetupOf(1));
    Model* models[] = {&group.a().model, &group.b().model};
    const auto write = [&](int id, uint64_t seed) {
      models[id]->Write(0, [seed](uint64_t i) { return Noise(seed, i); });
    };
    for (int id : {0, 1}) {
      write(id, 1);
      group.side(id).Adopt({});
    }
    group.Until([&] { return !group.a().adopted.empty() && !group.b().adopted.empty(); });
    Round(group, 1, 0, write);
    Round(group, 2, 0, write);
    std::vector<std::unique_ptr<Larger>> larger;
    if (grows) {
      for (int id : {0, 1}) {
        larger.push_back(
            std::make_unique<Larger>(group.side(id), static_cast<engine::ClusterId>(id), group));
        models[id] = &larger.back()->model;
        models[id]->Write(1, [](uint64_t i) { return Noise(5, i); });
      }
      REQUIRE(group.a().exchange->size() == 2);
      CHECK(group.a().endpoint->HasResidual(0));
      CHECK(!group.a().endpoint->HasResidual(1));
      group.Install(group.epoch, kBoth);
      for (int id : {0, 1}) group.side(id).Adopt({}, 1);
      group.Until([&] { return group.a().adopted.size() == 2 && group.b().adopted.size() == 2; });
      Round(group, 1, 1, [&](int id, uint64_t seed) {
        models[id]->Write(1, [seed](uint64_t i) { return Noise(seed, i); });
      });
      CHECK(group.a().outer->StateHash(1) == group.b().outer->StateHash(1));
    }
    Round(group, 3, 0, write);
    CHECK(group.a().outer->StateHash(0) == group.b().outer->StateHash(0));
    states.push_back(group.a().outer->StateHash(0));
    group.loop->Close();
    group.sides.clear();  // before what they refer to
  }
  CHECK(states[0] == states[1]);
}

TEST_CASE("a fragment that is being encoded or whose round is undecided is not quiet", "[growth]") {
  Group group(2, SetupOf(1));
  for (int id : {0, 1}) {
    group.side(id).model.Write(0, [](uint64_t i) { return Noise(1, i); });
    group.side(id).Adopt({});
  }
  group.Until([&] { return !group.a().adopted.empty() && !group.b().adopted.empty(); });
  group.Until([&] { return group.a().exchange->Quiet(); });
  group.a().Start(1, 1, kBoth);
  CHECK(!group.a().exchange->Quiet());
  group.Until([&] { return !group.a().rounds().encoding(); });
  CHECK(!group.a().exchange->Quiet());  // the pending residual may yet become the committed one
}

}  // namespace
}  // namespace causeway::testing
