// Whom a gateway asks for what it lacks.
#include "daemon/engine/catch_up.h"

#include <catch2/catch.hpp>

#include "daemon/engine/plans.h"

namespace causeway::engine {
namespace {

Config OneOfTwo() {
  Config config;
  config.clusters = 2;
  config.incarnation = 10;
  config.electorate.voters = ClusterSet{0, 1};
  config.hash = [](std::span<const uint8_t>) { return Hash256{1}; };
  return config;
}

// The run has grown, which this member knows from another's report alone: its own record has fewer
// fragments than what it keeps books on.
TEST_CASE("a fragment that the record does not have yet is not asked for", "[catch-up]") {
  Context context(OneOfTwo(), Durable(), 1);
  Ledger ledger(context);
  Plans plans(context);
  Rounds rounds(context, ledger, plans);
  CatchUp catch_up(context, ledger, rounds);
  Record record;
  record.epoch = {1, 0};
  record.members = ClusterSet{0, 1};
  record.incarnations = {10, 11};
  record.electorate = context.config.electorate;
  record.base.assign(2, {0, Hash256{1}});
  record.base.pop_back();  // what lies behind the end would be taken for a base at round 0
  record.lineage_base = record.base;
  context.durable = {record.epoch, std::move(record), false};
  context.kept_memory = context.installed = true;
  ledger.Load({0, {0, 0, Hash256{1}}, {}});
  rounds.Resize(2);
  ledger[1].holds = true;
  ledger[1].committed = {3, 0, Hash256{4}};  // of a lineage that ended
  context.peers.Hear(1, 11, 0);
  Report report;
  report.accepted = {1, 0};
  report.fragments.resize(2);
  for (FragmentReport& fragment : report.fragments) {
    fragment.holds = true;
    fragment.committed = {0, 7, Hash256{9}};
  }
  context.peers[1].report = report;
  REQUIRE(context.Active());
  context.TakeActions();
  catch_up.Check();
  CHECK(context.TakeActions().empty());
}

}  // namespace
}  // namespace causeway::engine
