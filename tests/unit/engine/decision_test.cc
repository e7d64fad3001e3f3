// What a candidate may conclude from promises: the histories that are about one decision, and the
// rules of ROUNDS.md one by one.
#include "daemon/engine/decision.h"

#include <catch2/catch.hpp>

#include "daemon/engine/chain.h"

namespace causeway::engine {
namespace {

Hash256 Chain(int number) {
  Hash256 hash{};
  hash[0] = static_cast<uint8_t>(number);
  hash[1] = 77;
  return hash;
}

Hash256 SumHash(std::span<const uint8_t> bytes) {
  Hash256 hash{};
  uint64_t sum = 1469598103934665603ull;
  for (uint8_t byte : bytes) sum = (sum ^ byte) * 1099511628211ull;
  for (int i = 0; i < 8; ++i) hash[static_cast<size_t>(i)] = static_cast<uint8_t>(sum >> (8 * i));
  return hash;
}

// A table of clusters that a candidate looks at.
struct Table {
  explicit Table(int clusters) : count(clusters) {
    config.clusters = clusters;
    config.hash = SumHash;
    config.electorate.voters = ClusterSet::FirstOf(clusters);
    candidacy.epoch = {9, 0};
    candidacy.promises.resize(static_cast<size_t>(clusters));
  }

  Record RecordOf(Epoch epoch, ClusterSet members, RoundNumber base = 5) const {
    Record record;
    record.epoch = epoch;
    record.leader = epoch.candidate;
    record.members = members;
    record.incarnations.assign(static_cast<size_t>(count), 1);
    record.electorate = config.electorate;
    record.base = record.lineage_base = {{base, Chain(static_cast<int>(base))}};
    return record;
  }

  // A promise of someone who accepted `record`, holds round `round`, and kept its memory or not.
  Promised& Add(int id, const std::optional<Record>& record, RoundNumber round,
                bool memory = true) {
    Promised promise;
    promise.incarnation = 1;
    promise.accepted = record;
    promise.report.blank = !record;
    promise.report.kept_memory = memory;
    promise.report.installed = memory;
    if (record) promise.report.accepted = record->epoch;
    FragmentReport fragment;
    fragment.holds = true;
    fragment.committed = {0, round, Chain(static_cast<int>(round))};
    fragment.attempt_seen = memory;
    promise.report.fragments = {fragment};
    candidacy.promises[static_cast<size_t>(id)] = promise;
    return *candidacy.promises[static_cast<size_t>(id)];
  }

  // It has sent COMPLETE for the round above what it holds.
  static void Completed(Promised& promise, Attempt attempt = 0) {
    FragmentReport& fragment = promise.report.fragments[0];
    fragment.complete = true;
    fragment.complete_epoch = promise.report.accepted;
    fragment.complete_round = fragment.committed.round + 1;
    fragment.complete_attempt = attempt;
    fragment.complete_chain = Chain(static_cast<int>(fragment.committed.round) + 1);
    fragment.attempt = std::max(fragment.attempt, attempt);
  }

  Verdict Decide() const { return engine::Decide(config, candidacy); }

  int count;
  Config config;
  Candidacy candidacy;
};

TEST_CASE("no quorum: not yet", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  table.Add(0, record, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  REQUIRE(table.Decide().missing == (ClusterSet{1, 2}));
  table.Add(1, record, 5);
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kRecord);
  REQUIRE(verdict.record.members == (ClusterSet{0, 1}));
  REQUIRE(verdict.record.base[0].round == 5);
}

TEST_CASE("half of the voters is a quorum only with the primary", "[decision]") {
  Table table(2);
  const Record without = table.RecordOf({1, 0}, {0, 1});
  table.Add(0, without, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  Record with = without;
  with.electorate.primary = 0;
  table.Add(0, with, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
  with.electorate.primary = 1;
  table.Add(0, with, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
}

TEST_CASE("all keepers complete: the round is committed", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  Table::Completed(table.Add(0, record, 5));
  Table::Completed(table.Add(1, record, 5));
  REQUIRE(table.Decide().record.base[0] == FragmentBase{6, Chain(6)});

  SECTION("one has not: aborted") {
    table.Add(1, record, 5);
    REQUIRE(table.Decide().record.base[0].round == 5);
  }
  SECTION("one has seen a later attempt: aborted") {
    table.candidacy.promises[1]->report.fragments[0].attempt = 1;
    REQUIRE(table.Decide().record.base[0].round == 5);
  }
  SECTION("one has no memory of it: the others decide") {
    table.Add(1, record, 5, false);
    REQUIRE(table.Decide().record.base[0].round == 6);
  }
  SECTION("one never accepted the record: nothing was committed in it") {
    table.Add(1, table.RecordOf({0, 0}, {0, 1, 2}), 5);
    REQUIRE(table.Decide().record.base[0].round == 5);
  }
}

TEST_CASE("what anybody has committed stays committed", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  Table::Completed(table.Add(0, record, 6));
  table.Add(1, record, 7);
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kRecord);
  REQUIRE(verdict.record.base[0].round == 7);
  REQUIRE(verdict.record.members.Contains(1));
}

TEST_CASE("a round that others cannot have completed is not believed", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  table.Add(0, record, 6);
  table.Add(1, record, 8);
  Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kNotYet);
  REQUIRE(verdict.reason.find("cluster 1 reports round 8") != std::string::npos);
  // One that came over the record without its base has completed nothing in it.
  table.Add(1, record, 6);
  table.Add(2, record, 3);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  table.Add(0, record, 5);
  table.Add(1, record, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
}

TEST_CASE("history 1: the only member forgot, so going on is a rollback, never silent",
          "[decision]") {
  Table table(2);
  Record old = table.RecordOf({1, 0}, {0, 1}, 20);
  old.electorate.primary = 0;
  Record lone = table.RecordOf({2, 0}, {0}, 24);
  lone.electorate.primary = 0;
  table.Add(0, lone, 24, false);
  table.Add(1, old, 24);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNeedsRollback);
  table.candidacy.may_roll_back = true;
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.record.rolled_back);
  REQUIRE(verdict.record.lineage == 1);
  REQUIRE(verdict.record.base[0].round == 24);
}

TEST_CASE("a second rollback in epochs of one number waits for the next number", "[decision]") {
  Table table(2);
  Record record = table.RecordOf({2, 0}, ClusterSet{0, 1});
  record.lineage = 1;
  table.candidacy.may_roll_back = true;
  table.Add(0, record, 5, false);
  table.Add(1, record, 5, false);
  table.candidacy.epoch = {2, 1};
  table.candidacy.self = 1;
  REQUIRE(Decide(table.config, table.candidacy).kind == Verdict::Kind::kNotYet);
  table.candidacy.epoch = {3, 1};
  const Verdict verdict = Decide(table.config, table.candidacy);
  REQUIRE(verdict.kind == Verdict::Kind::kRecord);
  REQUIRE(verdict.record.lineage == 2);
}

TEST_CASE("a member without a vote may still know what all voters have forgotten", "[decision]") {
  Table table(3);
  Record record = table.RecordOf({1, 0}, {0, 1, 2}, 20);
  record.electorate.voters = ClusterSet{0, 1};
  table.Add(0, record, 20, false);
  table.Add(1, record, 20, false);
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kNeedsRollback);
  REQUIRE(verdict.missing == ClusterSet{2});
  table.Add(2, record, 25);
  REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
  REQUIRE(table.Decide().record.base[0].round == 25);
}

TEST_CASE("history 2: a blank disk counts only where it cannot matter", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  table.Add(2, record, 5);
  Promised& blank = table.Add(0, std::nullopt, 0, false);
  blank.report.fragments[0].holds = false;
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  table.Add(1, record, 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
  SECTION("two of two: the other voter alone is no quorum, so the blank one counts") {
    Table pair(2);
    const Record both = pair.RecordOf({1, 0}, {0, 1});
    pair.Add(1, both, 5);
    pair.Add(0, std::nullopt, 0, false).report.fragments[0].holds = false;
    pair.candidacy.self = 1;
    const Verdict verdict = pair.Decide();
    REQUIRE(verdict.kind == Verdict::Kind::kRecord);
    REQUIRE(verdict.record.members == (ClusterSet{0, 1}));
  }
}

TEST_CASE("history 3: a change of voters accepted by one is no licence to go on alone",
          "[decision]") {
  Table table(3);
  Record change = table.RecordOf({2, 0}, {0, 1});
  change.old_electorate = change.electorate;
  change.electorate.voters = ClusterSet{0};
  table.Add(0, change, 5).report.installed = false;
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  SECTION("seen installed, the new voters suffice") {
    table.Add(0, change, 5).report.installed = true;
    REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
    REQUIRE(!table.Decide().record.old_electorate);
  }
  SECTION("with a quorum of the old ones both electorates are carried on") {
    table.Add(0, change, 5).report.installed = false;
    table.Add(1, table.RecordOf({1, 0}, {0, 1, 2}), 5);
    const Verdict verdict = table.Decide();
    REQUIRE(verdict.kind == Verdict::Kind::kRecord);
    REQUIRE(verdict.record.old_electorate == change.old_electorate);
    REQUIRE(verdict.record.members == (ClusterSet{0, 1}));
  }
}

TEST_CASE("history 4: the quorum is that of the highest record, not of the candidate's",
          "[decision]") {
  Table table(5);
  Record small = table.RecordOf({1, 0}, {0, 1});
  small.electorate.voters = ClusterSet{0, 1};
  table.Add(0, small, 5);
  table.Add(1, table.RecordOf({2, 1}, {0, 1, 2, 3, 4}), 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNotYet);
  table.Add(2, table.RecordOf({2, 1}, {0, 1, 2, 3, 4}), 5);
  REQUIRE(table.Decide().kind == Verdict::Kind::kRecord);
}

TEST_CASE("history 9: a decided round whose every holder restarted is not assumed", "[decision]") {
  Table table(3);
  Record decided = table.RecordOf({2, 0}, {0, 1}, 6);
  table.Add(0, decided, 5, false);
  table.Add(1, decided, 5, false);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNeedsRollback);
  // The third cluster holds it: no need to undo anything but what nobody remembers.
  table.Add(2, table.RecordOf({1, 0}, {0, 1, 2}), 6);
  REQUIRE(table.Decide().kind == Verdict::Kind::kNeedsRollback);
  table.candidacy.may_roll_back = true;
  REQUIRE(table.Decide().record.base[0].round == 6);
}

TEST_CASE("a wish for other voters names both electorates", "[decision]") {
  Table table(3);
  const Record record = table.RecordOf({1, 0}, {0, 1, 2});
  for (int id : {0, 1, 2}) table.Add(id, record, 5);
  Electorate wish;
  wish.voters = ClusterSet{0, 1};
  table.candidacy.wish = wish;
  table.candidacy.dropped = ClusterSet{2};
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.record.electorate == wish);
  REQUIRE(verdict.record.old_electorate == record.electorate);
  REQUIRE(verdict.record.members == (ClusterSet{0, 1}));
}

TEST_CASE("a seeded value that only its trainer has counts as held", "[decision]") {
  Table table(2);
  Record record = table.RecordOf({1, 0}, {0, 1}, 0);
  Hash256 parameters{};
  parameters[5] = 9;
  for (int id : {0, 1}) {
    table.Add(id, record, 0).report.fragments[0].holds = false;
  }
  REQUIRE(table.Decide().kind == Verdict::Kind::kNeedsRollback);
  table.candidacy.promises[0]->report.fragments[0].offered = true;
  table.candidacy.promises[0]->report.parameters = parameters;
  table.candidacy.may_roll_back = true;
  // Other parameters than the run was founded with: all voters have promised, so it is seeded anew.
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kRecord);
  REQUIRE(verdict.record.lineage == 1);
  REQUIRE(verdict.record.base[0].round == 0);
}

Growth GrowthTo(const Record& from, int tensors, int parameters) {
  return Growth{from.schema, {Chain(tensors), 3}, Chain(parameters)};
}

TEST_CASE("a run grows by what all members' trainers brought, with one's values", "[decision]") {
  Table table(3);
  table.config.seed_cluster = 1;
  Record record = table.RecordOf({1, 0}, {0, 1, 2});
  record.schema = Chain(40);
  for (int id : {0, 1, 2}) table.Add(id, record, 5).report.growth = GrowthTo(record, 41, 60 + id);
  REQUIRE(table.Decide().record.base.size() == 1);  // this change is about something else
  table.candidacy.grow = true;
  SECTION("the seed's where it is a member") {
    const Verdict verdict = table.Decide();
    REQUIRE(verdict.kind == Verdict::Kind::kRecord);
    CHECK(verdict.record.schema == Chain(41));
    REQUIRE(verdict.record.base.size() == 3);
    CHECK(verdict.record.lineage_base.size() == 3);
    CHECK(verdict.record.base[0].round == 5);
    CHECK(verdict.record.base[2].round == 0);
    CHECK(verdict.record.base[2].chain == SeedChain(table.config, Chain(61), 2));
    CHECK(verdict.record.base[1].chain != verdict.record.base[2].chain);
  }
  SECTION("else those of the first member") {
    table.candidacy.promises[1].reset();
    const Verdict verdict = table.Decide();
    REQUIRE(verdict.record.members == (ClusterSet{0, 2}));
    CHECK(verdict.record.base[2].chain == SeedChain(table.config, Chain(60), 2));
  }
  SECTION("not while a member's trainer came with other tensors, or none") {
    table.candidacy.promises[2]->report.growth = GrowthTo(record, 42, 62);
    CHECK(table.Decide().record.base.size() == 1);
    table.candidacy.promises[2]->report.growth.reset();
    CHECK(table.Decide().record.schema == Chain(40));
  }
  SECTION("not from a schema that the run has left") {
    Record newer = record;
    newer.epoch = {2, 1};
    newer.schema = Chain(50);
    table.Add(1, newer, 5);
    CHECK(table.Decide().record.schema == Chain(50));
  }
}

TEST_CASE("what a run had just grown by may be brought again, the rest stays", "[decision]") {
  Table table(3);
  table.config.rollback = RollbackPolicy::kAllHere;
  Record record = table.RecordOf({3, 0}, {0, 1, 2});
  record.base.push_back({0, SeedChain(table.config, Chain(60), 1)});
  record.lineage_base = record.base;
  for (int id : {1, 2}) {
    Promised& promise = table.Add(id, record, 5);
    promise.report.parameters = Chain(60 + id);
    FragmentReport lost;
    lost.offered = id == 2;
    promise.report.fragments.push_back(lost);
  }
  table.candidacy.epoch = {9, 1};
  table.candidacy.self = 1;
  // The seed's cluster is away with the only values: the operator may go on without.
  const Verdict waits = table.Decide();
  REQUIRE(waits.kind == Verdict::Kind::kNeedsRollback);
  CHECK(waits.missing == (ClusterSet{0}));
  CHECK(waits.restorable);
  table.candidacy.may_roll_back = true;
  const Verdict verdict = table.Decide();
  REQUIRE(verdict.kind == Verdict::Kind::kRecord);
  CHECK(verdict.record.base[0].round == 5);
  CHECK(verdict.record.base[1].chain == SeedChain(table.config, Chain(62), 1));
}

}  // namespace
}  // namespace causeway::engine
