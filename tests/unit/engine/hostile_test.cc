// Messages that no honest gateway sends: dropped and counted, never an index out of range.
#include <catch2/catch.hpp>

#include "daemon/engine/engine.h"

namespace causeway::engine {
namespace {

Hash256 SumHash(std::span<const uint8_t> bytes) {
  Hash256 hash{};
  for (size_t i = 0; i < bytes.size(); ++i) hash[i % 32] ^= static_cast<uint8_t>(bytes[i] + i);
  return hash;
}

Config TwoClusters() {
  Config config;
  config.clusters = 2;
  config.incarnation = 10;
  config.electorate.voters = ClusterSet{0, 1};
  config.hash = SumHash;
  return config;
}

Envelope From(Incarnation from, Incarnation to, Message message) {
  return {{Epoch{1, 1}, 0, from, to}, std::move(message)};
}

// A record that passes every check; tests spoil one thing of it.
Record GoodRecord() {
  Record record;
  record.epoch = {1, 1};
  record.leader = 1;
  record.members = ClusterSet{0, 1};
  record.incarnations = {10, 20};
  record.electorate.voters = ClusterSet{0, 1};
  record.base = record.lineage_base = {{0, Hash256{1}}};
  return record;
}

TrainerJoined OneTrainer() {
  TrainerJoined joined;
  joined.session = 1;
  joined.fragments = 1;
  return joined;
}

class Victim {
 public:
  Victim() : engine_(TwoClusters(), Durable(), 1) {
    engine_.Handle(0, Start());
    engine_.TakeActions();
  }
  // True: the message was refused.
  bool Refuses(ClusterId from, const Envelope& envelope) {
    const uint64_t before = engine_.messages_dropped();
    engine_.Handle(++now_, Received{from, envelope});
    return engine_.messages_dropped() == before + 1;
  }
  Engine& engine() { return engine_; }

 private:
  Engine engine_;
  Time now_ = 0;
};

TEST_CASE("senders that cannot be are refused", "[hostile]") {
  Victim victim;
  REQUIRE(victim.Refuses(0, From(20, 0, Join())));    // from itself
  REQUIRE(victim.Refuses(2, From(20, 0, Join())));    // outside the roster
  REQUIRE(victim.Refuses(200, From(20, 0, Join())));  // far outside
  REQUIRE(victim.Refuses(1, From(0, 0, Join())));     // without an incarnation
  Envelope strange = From(20, 0, Join());
  strange.header.epoch.candidate = 63;
  REQUIRE(victim.Refuses(1, strange));
  REQUIRE_FALSE(victim.Refuses(1, From(20, 0, Join())));
  REQUIRE(victim.Refuses(1, From(19, 0, Join())));     // its past self
  REQUIRE(victim.Refuses(1, From(20, 9, Prepare())));  // meant for our past self
  REQUIRE(victim.Refuses(1, From(20, 0, Prepare())));  // meant for nobody
  REQUIRE_FALSE(victim.Refuses(1, From(20, 10, Grant())));
}

TEST_CASE("fragments that do not exist are refused", "[hostile]") {
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  const FragmentId beyond = 0;  // nothing is known yet: every fragment is beyond
  for (const Message& message :
       {Message(Ready{beyond, 1}), Message(Contribution{beyond, 1, {1, 1}, 1, 0}),
        Message(Withdraw{beyond, 1}), Message(Cut{beyond, 1, 1, {}}), Message(Complete{beyond}),
        Message(Committed{}), Message(Fetch{beyond}), Message(State{beyond, {}, {}})}) {
    INFO(MessageName(message));
    REQUIRE(victim.Refuses(1, From(20, 10, message)));
  }
  Heartbeat heartbeat;
  heartbeat.report.fragments.resize(kFragmentsMax + 1);
  REQUIRE(victim.Refuses(1, From(20, 10, heartbeat)));
  Join join;
  join.fragments = kFragmentsMax + 1;
  REQUIRE(victim.Refuses(1, From(20, 10, join)));
}

TEST_CASE("records that cannot be are refused", "[hostile]") {
  std::vector<Record> bad(12, GoodRecord());
  bad[0].leader = 0;  // not the candidate
  bad[1].members = ClusterSet{0, 1, 5};
  bad[2].incarnations = {10};
  bad[3].base.clear();
  bad[4].base.resize(kFragmentsMax + 1);
  bad[5].lineage_base.clear();
  bad[6].electorate.voters = ClusterSet();
  bad[7].electorate.primary = 7;
  bad[8].old_electorate = Electorate();
  bad[9].lineage = 1;  // as many lineages as epochs
  bad[10].base[0].round = kRoundMax + 1;
  bad[11].lineage_base[0].round = -1;
  for (size_t i = 0; i < bad.size(); ++i) {
    Victim victim;
    victim.Refuses(1, From(20, 0, Join()));
    CAPTURE(i);
    REQUIRE(victim.Refuses(1, From(20, 10, Install{bad[i]})));
    Promise promise;
    promise.accepted = bad[i];
    REQUIRE(victim.Refuses(1, From(20, 10, promise)));
    REQUIRE_FALSE(victim.engine().Snapshot().record.has_value());
  }
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  REQUIRE_FALSE(victim.Refuses(1, From(20, 10, Install{GoodRecord()})));
  REQUIRE(victim.engine().Snapshot().record == GoodRecord());
}

TEST_CASE("contributors out of order, doubled or unknown are refused", "[hostile]") {
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  victim.Refuses(1, From(20, 10, Install{GoodRecord()}));
  victim.engine().Handle(100, OneTrainer());
  const Contributor zero{0, 10, {1, 1}, 1, 0};
  const Contributor one{1, 20, {1, 1}, 1, 0};
  const Contributor two{2, 20, {1, 1}, 1, 0};
  const auto cut = [&](std::vector<Contributor> parts) {
    Victim fresh;
    fresh.Refuses(1, From(20, 0, Join()));
    fresh.engine().Handle(100, OneTrainer());
    const uint64_t before = fresh.engine().messages_dropped();
    fresh.engine().Handle(200, Received{1, From(20, 10, Cut{0, 1, 1, std::move(parts)})});
    return fresh.engine().messages_dropped() == before;
  };
  REQUIRE(cut({}));
  REQUIRE(cut({zero, one}));
  REQUIRE_FALSE(cut({one, zero}));
  REQUIRE_FALSE(cut({one, one}));
  REQUIRE_FALSE(cut({two}));
}

TEST_CASE("numbers that no run reaches are refused", "[hostile]") {
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  victim.Refuses(1, From(20, 10, Install{GoodRecord()}));
  const auto refuses = [&](const Message& message) {
    INFO(MessageName(message));
    return victim.Refuses(1, From(20, 10, message));
  };
  const OpId op{1, 1};
  for (const RoundNumber round : {RoundNumber{-1}, kRoundMax + 1, RoundNumber{INT64_MAX}}) {
    CAPTURE(round);
    CHECK(refuses(Ready{0, round}));
    CHECK(refuses(Contribution{0, round, op, 1, 0}));
    CHECK(refuses(Withdraw{0, round, 0}));
    CHECK(refuses(Cut{0, round, 1, {}}));
    CHECK(refuses(Complete{0, round}));
    CHECK(refuses(Plan{1, round, ""}));
    CHECK(refuses(Fetch{0, true, {0, round, {}}}));
    CHECK(refuses(State{0, {0, round, {}}, {}}));
    CommitRecord commit;
    commit.state.round = round;
    CHECK(refuses(Committed{commit}));
    CHECK(refuses(State{0, {}, {commit}}));
    for (const bool committed : {true, false}) {
      Heartbeat heartbeat;
      heartbeat.report.fragments.resize(1);
      FragmentReport& fragment = heartbeat.report.fragments[0];
      (committed ? fragment.committed.round : fragment.complete_round) = round;
      CHECK(refuses(heartbeat));
    }
  }
  CHECK(refuses(Withdraw{0, 1, kAttemptMax + 1}));
  CHECK(refuses(Cut{0, 1, kAttemptMax + 1, {}}));
  CHECK(refuses(Complete{0, 1, kAttemptMax + 1}));
  Heartbeat heartbeat;
  heartbeat.report.suspected = ClusterSet{5};
  CHECK(refuses(heartbeat));
  heartbeat = Heartbeat();
  heartbeat.report.active = true;
  heartbeat.report.accepted = {1, 63};
  CHECK(refuses(heartbeat));
  heartbeat.report.accepted = {1, 1};
  CHECK_FALSE(refuses(heartbeat));
}

TEST_CASE("plans of nobody's epoch, or before there are members, push out none", "[hostile]") {
  const auto known = [](Victim& victim, PlanId id) {
    victim.engine().TakeActions();
    victim.Refuses(1, From(20, 10, Plan{id, 1, "body"}));
    for (const Action& action : victim.engine().TakeActions()) {
      if (std::holds_alternative<PlanKnown>(action)) return true;
    }
    return false;
  };
  const PlanId ours = PlanId{1} << 24 | PlanId{1} << 16 | 1;  // the record's epoch is 1.1
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  CHECK_FALSE(known(victim, ours));
  victim.Refuses(1, From(20, 10, Install{GoodRecord()}));
  CHECK_FALSE(known(victim, PlanId{2} << 24));
  CHECK_FALSE(known(victim, ~PlanId{0}));
  CHECK(known(victim, ours));
  // Cluster 1 leads; cluster 2 is heard and no member.
  Config three = TwoClusters();
  three.clusters = 3;
  Engine engine(three, Durable(), 1);
  engine.Handle(0, Start());
  engine.Handle(1, Received{1, From(20, 0, Join())});
  engine.Handle(2, Received{2, From(30, 0, Join())});
  Record record = GoodRecord();
  record.incarnations = {10, 20, 0};
  engine.Handle(3, Received{1, From(20, 10, Install{record})});
  REQUIRE(engine.Snapshot().record == record);
  engine.TakeActions();
  engine.Handle(4, Received{2, From(30, 10, Plan{ours, 1, "body"})});
  for (const Action& action : engine.TakeActions()) {
    CHECK_FALSE(std::holds_alternative<PlanKnown>(action));
  }
}

TEST_CASE("a promise is kept: nothing below it is accepted", "[hostile]") {
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  Envelope prepare = From(20, 10, Prepare());
  prepare.header.epoch = {5, 1};
  REQUIRE_FALSE(victim.Refuses(1, prepare));
  REQUIRE(victim.engine().Snapshot().promised == (Epoch{5, 1}));
  REQUIRE_FALSE(victim.Refuses(1, From(20, 10, Install{GoodRecord()})));
  REQUIRE_FALSE(victim.engine().Snapshot().record.has_value());
}

TEST_CASE("a founding while a run exists leaves a wiped disk as blank as it is", "[hostile]") {
  for (const bool known : {false, true}) {
    Victim victim;
    victim.Refuses(1, From(20, 0, Join()));
    Heartbeat heartbeat;
    if (known) heartbeat.report.accepted = {1, 1};
    victim.Refuses(1, From(20, 10, heartbeat));
    victim.engine().TakeActions();
    Envelope prepare = From(20, 10, Prepare{true});
    prepare.header.epoch = {2, 1};
    victim.Refuses(1, prepare);
    bool founding = false;
    for (const Action& action : victim.engine().TakeActions()) {
      if (const auto* persist = std::get_if<Persist>(&action)) founding = persist->durable.founding;
    }
    CHECK(founding == !known);
  }
}

TEST_CASE("a promise leaves only after it is durable", "[hostile]") {
  Victim victim;
  victim.Refuses(1, From(20, 0, Join()));
  victim.engine().TakeActions();
  victim.Refuses(1, From(20, 10, Prepare()));
  uint64_t token = 0;
  for (const Action& action : victim.engine().TakeActions()) {
    if (const auto* persist = std::get_if<Persist>(&action)) token = persist->token;
    const auto* send = std::get_if<Send>(&action);
    REQUIRE_FALSE((send && std::holds_alternative<Promise>(send->envelope.message)));
  }
  REQUIRE(token != 0);
  victim.engine().Handle(50, Persisted{token});
  bool sent = false;
  for (const Action& action : victim.engine().TakeActions()) {
    const auto* send = std::get_if<Send>(&action);
    sent = sent || (send && std::holds_alternative<Promise>(send->envelope.message));
  }
  REQUIRE(sent);
}

}  // namespace
}  // namespace causeway::engine
