// Trainers that launch fragments in different orders: whose work on which fragment is wanted.
#include <catch2/catch.hpp>

#include "daemon/engine/plans.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {
namespace {

Config Clusters(int clusters) {
  Config config;
  config.clusters = clusters;
  config.incarnation = 10;
  config.electorate.voters = ClusterSet::FirstOf(clusters);
  config.hash = [](std::span<const uint8_t>) { return Hash256{1}; };
  return config;
}

// Cluster 0 in an installed epoch, every fragment at round 0.
class Member {
 public:
  Member(int clusters, uint32_t fragments)
      : context_(Clusters(clusters), Durable(), 1),
        ledger_(context_),
        plans_(context_),
        rounds_(context_, ledger_, plans_) {
    Record record;
    record.epoch = {1, 0};
    record.members = ClusterSet::FirstOf(clusters);
    for (int id = 0; id < clusters; ++id) record.incarnations.push_back(10u + unsigned(id));
    record.electorate = context_.config.electorate;
    record.base.assign(fragments, {0, Hash256{1}});
    record.lineage_base = record.base;
    context_.durable = {record.epoch, record, false};
    context_.kept_memory = context_.installed = true;
    context_.trainer.present = true;
    context_.trainer.session = 1;
    for (int id = 1; id < clusters; ++id) context_.peers.Hear(ClusterId(id), 10u + unsigned(id), 0);
    for (FragmentId id = 0; id < fragments; ++id) ledger_.Load({id, {0, 0, Hash256{1}}, {}});
    rounds_.Resize(fragments);
    rounds_.Adopt();
  }

  void Submit(FragmentId fragment) {
    ledger_.Submit({fragment, {0, 0, {}}, 1, {1, fragment + 1}});
    rounds_.AdvanceAll();
  }
  void Comes(ClusterId from, FragmentId fragment) {
    rounds_.OnContribution(from, {{1, 0}, 0, 10u + from, 10},
                           {fragment, 1, {2u + from, fragment + 1}, 1, 0});
    rounds_.AdvanceAll();
  }
  std::optional<FragmentId> Wanted(FragmentId fragment) const {
    REQUIRE(ledger_[fragment].op);
    return ledger_[fragment].op->wanted;
  }

 private:
  Context context_;
  Ledger ledger_;
  Plans plans_;
  Rounds rounds_;
};

TEST_CASE("two clusters out of step: the one that owes the lower fragment brings it", "[wanted]") {
  Member member(2, 2);
  SECTION("this one has submitted 1, the other 0") {
    member.Submit(1);
    REQUIRE_FALSE(member.Wanted(1));  // the other may be about to bring 1
    member.Comes(1, 0);
    REQUIRE(member.Wanted(1) == 0u);
    SECTION("once it is submitted, nothing is wanted") {
      member.Submit(0);
      REQUIRE_FALSE(member.Wanted(1));
      REQUIRE_FALSE(member.Wanted(0));
    }
    SECTION("nor once the other has come") {
      member.Comes(1, 1);
      REQUIRE_FALSE(member.Wanted(1));
    }
  }
  SECTION("this one has submitted 0, the other 1: the other gives way") {
    member.Submit(0);
    member.Comes(1, 1);
    REQUIRE_FALSE(member.Wanted(0));
  }
  SECTION("in step, the other slow") {
    member.Submit(0);
    member.Submit(1);
    REQUIRE_FALSE(member.Wanted(0));
    REQUIRE_FALSE(member.Wanted(1));
  }
}

TEST_CASE("a circle through a third cluster has one place that gives way", "[wanted]") {
  Member member(3, 3);
  member.Submit(2);  // awaits 1 and 2
  member.Comes(2, 2);
  member.Comes(1, 1);  // 1 waits for this one and for 2
  REQUIRE(member.Wanted(2) == 1u);
  member.Submit(1);
  REQUIRE_FALSE(member.Wanted(2));
  member.Comes(2, 0);  // 2, which 1 waits for, waits for this one's work on 0
  REQUIRE(member.Wanted(2) == 0u);
  REQUIRE(member.Wanted(1) == 0u);
}

TEST_CASE("who is waited for but waits for others only wants nothing", "[wanted]") {
  Member member(3, 2);
  member.Submit(1);
  member.Submit(0);
  member.Comes(1, 0);  // cluster 1 waits for 2 alone
  REQUIRE_FALSE(member.Wanted(1));
  REQUIRE_FALSE(member.Wanted(0));
}

}  // namespace
}  // namespace causeway::engine
