// One voice cannot use up the numbers of epochs, nor push out the plans of others.
#include "daemon/engine/horizon.h"

#include <catch2/catch.hpp>

#include "daemon/engine/engine.h"

namespace causeway::engine {
namespace {

constexpr Time kHeartbeat = 2'000'000;  // of the peer timeout that is the default
constexpr uint64_t kHighest = ~uint64_t{0};

// Cluster 0 of three, a member of epoch 5.1, which cluster 1 leads.
class Member {
 public:
  Member() : engine_(MakeConfig(), MakeDurable(), 1) {
    engine_.Handle(0, Start());
    for (ClusterId peer : {1, 2}) Hear(peer, Join(), 0);
    Hear(1, Install{MakeRecord({6, 1})});
    engine_.TakeActions();
  }

  // True: it was believed.
  bool Hear(ClusterId from, const Message& message, uint64_t counter = 6) {
    const uint64_t before = engine_.messages_dropped();
    const Epoch epoch{counter, counter == 6 ? ClusterId{1} : from};
    engine_.Handle(now_, Received{from, {{epoch, 0, Incarnation{10} + from, 10}, message}});
    return engine_.messages_dropped() == before;
  }
  void Beat() {
    now_ += kHeartbeat;
    engine_.Handle(now_, Timer());
  }
  // A heartbeat of `from` that promised `counter`.
  bool Says(ClusterId from, uint64_t counter) {
    Heartbeat heartbeat;
    heartbeat.report.promised = {counter, from};
    return Hear(from, heartbeat);
  }
  template <typename T>
  std::vector<T> Taken() {
    std::vector<T> out;
    for (Action& action : engine_.TakeActions()) {
      if (T* wanted = std::get_if<T>(&action)) out.push_back(std::move(*wanted));
    }
    return out;
  }
  int Warnings() {
    int count = 0;
    for (const Note& note : Taken<Note>()) count += note.warning;
    return count;
  }
  Epoch promised() const { return engine_.Snapshot().promised; }

 private:
  static Config MakeConfig() {
    Config config;
    config.clusters = 3;
    config.incarnation = 10;
    config.electorate.voters = ClusterSet{0, 1, 2};
    config.hash = [](std::span<const uint8_t>) { return Hash256{1}; };
    return config;
  }
  static Record MakeRecord(const Epoch& epoch) {
    Record record;
    record.epoch = epoch;
    record.leader = epoch.candidate;
    record.members = ClusterSet{0, 1, 2};
    record.incarnations = {10, 11, 12};
    record.electorate.voters = ClusterSet{0, 1, 2};
    record.base = record.lineage_base = {{0, Hash256{1}}};
    return record;
  }
  static Durable MakeDurable() { return {{5, 1}, MakeRecord({5, 1}), false}; }

  Engine engine_;
  Time now_ = 0;
};

TEST_CASE("a promise far above what is known is refused and named", "[horizon]") {
  for (const uint64_t counter : {kHighest, kEpochCounterMax, uint64_t{5 + kEpochLeadMax + 1}}) {
    CAPTURE(counter);
    Member member;
    CHECK_FALSE(member.Hear(2, Prepare(), counter));
    CHECK(member.promised() == (Epoch{6, 1}));
    CHECK(member.Warnings() == 1);
    CHECK_FALSE(member.Hear(2, PreVote(), counter));
    CHECK_FALSE(member.Says(2, counter));
    Join join;
    join.promised = {counter, 2};
    CHECK_FALSE(member.Hear(2, join));
    CHECK(member.Warnings() == 0);  // once a heartbeat
    // The next epoch, whoever makes it, is believed.
    CHECK(member.Hear(1, Prepare(), 7));
    CHECK(member.promised() == (Epoch{7, 1}));
  }
  Member member;
  CHECK(member.Hear(2, Prepare(), 5 + kEpochLeadMax));
}

TEST_CASE("every number of an epoch or lineage counts, wherever it stands", "[horizon]") {
  Member member;
  FragmentReport fragment;
  fragment.committed.lineage = kHighest;
  Heartbeat heartbeat;
  heartbeat.report.fragments = {fragment};
  CHECK_FALSE(member.Hear(2, heartbeat));
  fragment = {};
  fragment.complete_epoch = {kHighest, 2};
  heartbeat.report.fragments = {fragment};
  CHECK_FALSE(member.Hear(2, heartbeat));
  CommitRecord commit;
  commit.epoch = {kHighest, 2};
  CHECK_FALSE(member.Hear(2, Committed{commit}));
  CHECK_FALSE(member.Hear(2, State{0, {kHighest, 1, {}}, {}}));
  CHECK_FALSE(member.Hear(2, State{0, {}, {commit}}));
  CHECK_FALSE(member.Hear(2, Fetch{0, true, {kHighest, 1, {}}}));
  CHECK(member.Hear(2, Fetch{0, true, {0, 1, {}}}));
}

TEST_CASE("one voice moves what is believed by so much in a heartbeat, however often it speaks",
          "[horizon]") {
  Member member;
  member.Beat();
  uint64_t highest = 6;  // that was believed
  for (int beat = 0; beat < 20; ++beat) {
    for (int i = 0; i < 10; ++i) {
      member.Says(2, kHighest);
      if (member.Says(2, highest + kEpochLeadMax)) highest += kEpochLeadMax;
    }
    member.Beat();
  }
  CHECK(highest == 6 + 20 * kEpochLeadMax);
  // Once it falls silent nothing moves, and the next epochs are made as ever.
  for (int beat = 0; beat < 5; ++beat) member.Beat();
  CHECK_FALSE(member.Says(2, highest + 2 * kEpochLeadMax));
  CHECK(member.Hear(1, Prepare(), highest + 1));
}

TEST_CASE("what a quorum of others names is believed at once", "[horizon]") {
  Member member;
  const uint64_t away = 1'000'000;  // epochs that went by while this gateway was away
  CHECK_FALSE(member.Says(1, away));
  CHECK_FALSE(member.Says(2, away + 7));
  member.Beat();
  CHECK(member.Says(1, away + kEpochLeadMax));
  CHECK_FALSE(member.Says(2, away + kEpochLeadMax + 1));
}

TEST_CASE("a lone primary is no such quorum", "[horizon]") {
  Horizon horizon(2, 5);
  const Electorate electorate{ClusterSet{0, 1}, ClusterId{1}};
  horizon.Claim(1, kEpochCounterMax);
  horizon.Step(5, {0, 0}, electorate, 0);
  CHECK(horizon.Limit() == 5 + 2 * kEpochLeadMax);
}

TEST_CASE("the numbers end where plans have no room for more", "[horizon]") {
  Horizon horizon(3, kEpochCounterMax - 1);
  CHECK(horizon.Reaches(kEpochCounterMax));
  CHECK_FALSE(horizon.Reaches(kEpochCounterMax + 1));
  horizon.Claim(1, kHighest);
  horizon.Claim(2, kHighest);
  horizon.Step(kEpochCounterMax, {0, 0, 0}, {ClusterSet{0, 1, 2}, std::nullopt}, 0);
  CHECK(horizon.Limit() == kEpochCounterMax);
}

// Ids carry the epoch of their maker.
PlanId PlanOf(uint64_t counter, ClusterId maker, uint64_t number) {
  return counter << 24 | uint64_t{maker} << 16 | number;
}

TEST_CASE("a member that floods plans pushes out no other's", "[horizon]") {
  Member member;
  const auto known = [&](ClusterId from, PlanId id, const std::string& body) {
    member.Taken<PlanKnown>();
    member.Hear(from, Plan{id, 1, body});
    std::vector<PlanKnown> taken = member.Taken<PlanKnown>();
    return taken.empty() ? std::optional<PlanKnown>() : taken[0];
  };
  for (uint64_t i = 1; i <= 8; ++i) REQUIRE(known(1, PlanOf(6, 1, i), "leader's"));
  for (uint64_t i = 0; i < 100; ++i) {
    known(2, PlanOf(6, 1, 1000 + i), "flood");
    known(2, PlanOf(5, 2, i), "flood");
    CHECK_FALSE(known(2, PlanOf(6, 2, i), "of no epoch"));
    CHECK_FALSE(known(2, PlanOf(7, 0, i), "of no epoch"));
  }
  // All of the leader's are known still: saying one again brings nothing new.
  for (uint64_t i = 1; i <= 8; ++i) CHECK_FALSE(known(1, PlanOf(6, 1, i), "leader's"));
  // The leader's own word replaces what somebody else told in its name.
  const std::optional<PlanKnown> replaced = known(1, PlanOf(6, 1, 1099), "leader's");
  REQUIRE(replaced);
  CHECK(replaced->plan.body == "leader's");
  CHECK_FALSE(replaced->told_by.has_value());
  CHECK(known(2, PlanOf(5, 0, 1), "of a leader before")->told_by == ClusterId{2});
}

}  // namespace
}  // namespace causeway::engine
