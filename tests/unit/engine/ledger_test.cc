// What becomes of operations and of the retained contribution when committed values move.
#include "daemon/engine/ledger.h"

#include <catch2/catch.hpp>

namespace causeway::engine {
namespace {

constexpr OpId kOp{4, 1};

Hash256 Chain(int number) {
  Hash256 hash{};
  hash[0] = static_cast<uint8_t>(number + 1);
  return hash;
}

Config OneOfTwo() {
  Config config;
  config.clusters = 2;
  config.incarnation = 3;
  config.electorate.voters = ClusterSet{0, 1};
  config.hash = [](std::span<const uint8_t>) { return Hash256{1}; };
  return config;
}

// A fragment at round 5 of lineage 0, in an epoch that began there.
struct Fixture {
  Fixture() : context(OneOfTwo(), Durable(), 1), ledger(context) {
    InForce(0, 5);
    ledger.Resize(1);
    ledger.Load({0, {0, 5, Chain(5)}, {}});
    context.trainer.present = true;
  }

  void InForce(Lineage lineage, RoundNumber base) {
    Record record;
    record.epoch = {lineage + 1, 0};
    record.members = ClusterSet{0, 1};
    record.lineage = lineage;
    record.base = {{base, Chain(static_cast<int>(base))}};
    context.durable.accepted = record;
    context.kept_memory = context.installed = true;
  }

  CommitRecord Round(RoundNumber round, std::vector<OpId> own_ops, Lineage lineage = 0) const {
    CommitRecord record;
    record.state = {lineage, round, Chain(static_cast<int>(round))};
    record.previous_chain = Chain(static_cast<int>(round) - 1);
    record.epoch = {1, 0};
    for (OpId op : own_ops) record.contributors.push_back({0, 3, op, 7, 0});
    return record;
  }

  void Retain(OpId op) { ledger[0].own = Retained{{0, 3, op, 7, 0}, 0, 6, 4}; }

  template <typename T>
  std::vector<T> Taken() {
    std::vector<T> out;
    for (Action& action : context.TakeActions()) {
      if (T* wanted = std::get_if<T>(&action)) out.push_back(std::move(*wanted));
    }
    return out;
  }

  OpState StateOf(OpId op) const { return ledger.Find(0, op)->state; }

  Context context;
  Ledger ledger;
};

TEST_CASE("an operation is judged by the record of its round", "[ledger]") {
  Fixture fixture;
  fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
  REQUIRE(fixture.StateOf(kOp) == OpState::kPending);
  SECTION("named in it: committed, the residual moves") {
    fixture.Retain(kOp);
    fixture.ledger.Commit(0, fixture.Round(6, {kOp}));
    REQUIRE(fixture.StateOf(kOp) == OpState::kCommitted);
    REQUIRE(fixture.Taken<Commit>().at(0).own == OwnPart::kCounted);
  }
  SECTION("not named: excluded, the residual stays") {
    fixture.Retain(kOp);
    fixture.ledger.Commit(0, fixture.Round(6, {}));
    REQUIRE(fixture.StateOf(kOp) == OpState::kExcluded);
    REQUIRE(fixture.Taken<Commit>().at(0).own == OwnPart::kExcluded);
  }
  SECTION("history 5: an earlier trainer's operation is named instead") {
    fixture.Retain({3, 9});
    fixture.ledger.Commit(0, fixture.Round(6, {{3, 9}}));
    REQUIRE(fixture.StateOf(kOp) == OpState::kExcluded);
    const Commit commit = fixture.Taken<Commit>().at(0);
    REQUIRE(commit.own == OwnPart::kCounted);
    REQUIRE(commit.own_op == OpId{3, 9});
  }
}

TEST_CASE("a resubmitted operation is answered from the records", "[ledger]") {
  Fixture fixture;
  fixture.ledger.Commit(0, fixture.Round(6, {kOp}));
  fixture.context.TakeActions();
  fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
  REQUIRE(fixture.Taken<OpChanged>().at(0).state == OpState::kCommitted);
  REQUIRE(fixture.ledger.Find(0, kOp)->state == OpState::kCommitted);
  REQUIRE_FALSE(fixture.ledger.Find(0, OpId{8, 8}).has_value());
}

TEST_CASE("a base that is not known any more is a rebase", "[ledger]") {
  Fixture fixture;
  SECTION("another lineage") {
    fixture.ledger.Submit({0, {3, 5, {}}, 7, kOp});
    REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);
  }
  SECTION("a record that is not kept") {
    fixture.ledger.Submit({0, {0, 2, {}}, 7, kOp});
    REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);
  }
}

TEST_CASE("an adopted value takes the place of what the trainer brought", "[ledger]") {
  Fixture f;
  f.ledger[0].offered = true;
  f.ledger.Jump(0, {0, 9, Chain(9)}, {}, true);
  CHECK(f.ledger[0].offered);
  f.ledger.Jump(0, {0, 11, Chain(11)}, {}, false);
  CHECK_FALSE(f.ledger[0].offered);
}

// A trainer may outlive its gateway's state and the founding of another run of the same name.
TEST_CASE("a base that this run cannot have had is a rebase", "[ledger]") {
  Fixture f;
  f.ledger.Submit({0, {0, 9, Chain(9)}, 7, kOp});
  CHECK(f.StateOf(kOp) == OpState::kRebase);
  f.ledger.Submit({0, {0, 9, {}}, 7, {4, 2}});
  CHECK(f.StateOf({4, 2}) == OpState::kRebase);
  f.ledger.Submit({0, {0, 5, Chain(77)}, 7, {4, 3}});
  CHECK(f.StateOf({4, 3}) == OpState::kRebase);
  f.ledger.Submit({0, {0, 5, {}}, 7, {4, 4}});
  CHECK(f.StateOf({4, 4}) == OpState::kPending);
}

TEST_CASE("before the lineage is decided a later base may be caught up with", "[ledger]") {
  Fixture f;
  f.context.installed = false;
  f.ledger.Submit({0, {0, 9, Chain(9)}, 7, kOp});
  CHECK(f.StateOf(kOp) == OpState::kPending);
}

TEST_CASE("nothing is answered from the absence of a record before the lineage is decided",
          "[ledger]") {
  Fixture fixture;
  const auto waits = [&] { return fixture.StateOf(kOp) == OpState::kPending; };
  SECTION("a disk that was lost: what was taken over may be of a lineage that ended") {
    fixture.context.durable.accepted.reset();
    fixture.context.kept_memory = fixture.context.installed = false;
    SECTION("the round went on without it there") {
      fixture.ledger.Submit({0, {0, 4, {}}, 7, kOp});
      REQUIRE(waits());
      fixture.ledger.Jump(0, {0, 6, Chain(6)}, {fixture.Round(6, {})}, false);
      REQUIRE(waits());
      fixture.InForce(0, 6);
      fixture.ledger.Settle(0);
      REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);  // the record of round 5 is not kept
    }
    SECTION("excluded there, counted in the lineage that goes on") {
      fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
      fixture.ledger.Jump(0, {0, 6, Chain(6)}, {fixture.Round(6, {})}, false);
      REQUIRE(waits());
      fixture.InForce(1, 6);
      fixture.ledger.Settle(0);
      REQUIRE(waits());  // what is held is not what the epoch builds on
      CommitRecord other = fixture.Round(6, {kOp}, 1);
      other.state.chain = Chain(60);
      fixture.ledger.Jump(0, {1, 6, Chain(60)}, {other}, false);
      REQUIRE(fixture.StateOf(kOp) == OpState::kCommitted);
    }
    SECTION("its base is of a lineage that is not known yet") {
      fixture.ledger.Submit({0, {3, 5, {}}, 7, kOp});
      REQUIRE(waits());
      fixture.InForce(0, 5);
      fixture.ledger.Settle(0);
      REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);
    }
    SECTION("a record that names it is an answer") {
      fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
      fixture.ledger.Jump(0, {0, 6, Chain(6)}, {fixture.Round(6, {kOp})}, false);
      REQUIRE(fixture.StateOf(kOp) == OpState::kCommitted);
    }
  }
  SECTION("a record that is accepted but not known to be in force") {
    fixture.context.installed = false;
    fixture.ledger.Submit({0, {0, 2, {}}, 7, kOp});
    REQUIRE(waits());
    fixture.context.installed = true;
    fixture.ledger.Settle(0);
    REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);
  }
}

TEST_CASE("a restored residual lasts until a later round turns out to have counted it",
          "[ledger]") {
  Fixture fixture;  // holds round 5, from disk
  fixture.ledger.Jump(0, {0, 6, Chain(6)}, {fixture.Round(6, {})}, false);
  REQUIRE(fixture.Taken<AdoptState>().at(0).forward);
  SECTION("what was sent before the restart counted in the next one") {
    fixture.ledger.Jump(0, {0, 7, Chain(7)}, {fixture.Round(7, {kOp})}, false);
    REQUIRE_FALSE(fixture.Taken<AdoptState>().at(0).forward);
  }
  SECTION("a record in between is not known") {
    fixture.ledger.Jump(0, {0, 8, Chain(8)}, {fixture.Round(8, {})}, false);
    REQUIRE_FALSE(fixture.Taken<AdoptState>().at(0).forward);
  }
}

TEST_CASE("a jump forward resolves what was retained from the records", "[ledger]") {
  Fixture fixture;
  fixture.Retain(kOp);
  fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
  SECTION("counted on the way") {
    fixture.ledger.Jump(0, {0, 8, Chain(8)},
                        {fixture.Round(6, {kOp}), fixture.Round(7, {}), fixture.Round(8, {})},
                        false);
    const AdoptState adopt = fixture.Taken<AdoptState>().at(0);
    REQUIRE(adopt.forward);
    REQUIRE(adopt.own == OwnPart::kCounted);
    REQUIRE(fixture.StateOf(kOp) == OpState::kCommitted);
  }
  SECTION("no records: only a zero residual is safe, and nothing is claimed") {
    fixture.ledger.Jump(0, {0, 8, Chain(8)}, {}, false);
    REQUIRE_FALSE(fixture.Taken<AdoptState>().at(0).forward);
    REQUIRE(fixture.StateOf(kOp) == OpState::kRebase);
  }
}

TEST_CASE("history 11: a rollback frees the retained bytes for good", "[ledger]") {
  Fixture fixture;
  fixture.Retain(kOp);
  fixture.ledger.Submit({0, {0, 5, {}}, 7, kOp});
  fixture.ledger.Relabel(0, 1);
  REQUIRE(fixture.StateOf(kOp) == OpState::kPending);  // same value, new lineage: encoded again
  std::vector<Action> actions = fixture.context.TakeActions();
  REQUIRE(std::holds_alternative<ReleaseRetained>(actions.at(0)));
  REQUIRE(std::get<RolledBack>(actions.at(1)).holds);
  // A second rollback brings a chain in which that very round is committed.
  fixture.ledger.Jump(0, {2, 6, Chain(6)}, {fixture.Round(6, {kOp}, 0)}, false);
  const AdoptState adopt = fixture.Taken<AdoptState>().at(0);
  REQUIRE_FALSE(adopt.forward);
  REQUIRE(adopt.own == OwnPart::kNone);
  REQUIRE(fixture.StateOf(kOp) == OpState::kCommitted);
}

TEST_CASE("records are bounded", "[ledger]") {
  Fixture fixture;
  for (RoundNumber round = 6; round < 6 + 2 * kCommitRecordsKept; ++round) {
    fixture.ledger.Commit(0, fixture.Round(round, {}));
  }
  REQUIRE(fixture.ledger[0].records.size() == kCommitRecordsKept);
}

}  // namespace
}  // namespace causeway::engine
