// A run's planning on one gateway: what it measures, when it tells the leader, what it proposes.
#include "daemon/run/run_planning.h"

#include <catch2/catch.hpp>

namespace causeway::run {
namespace {

config::Run Auto() {
  config::Run run;
  run.name = "demo";
  run.clusters = {"paris", "tokyo"};
  run.algorithm.local_steps = 10;
  run.algorithm.delay = 5;
  run.codec.kind = "int4:b64:ef";
  run.codec.error_feedback = true;
  run.codec.ladder = {"int8:b256:ef", "int4:b64:ef"};
  return run;
}

std::vector<transport::PeerRates> Rates(double bytes_per_second) {
  transport::PeerRates rates;
  rates.cluster = "tokyo";
  rates.up = true;
  rates.send.bytes_per_s = rates.receive.bytes_per_s = bytes_per_second;
  rates.rtt = absl::Milliseconds(40);
  rates.rtt_min = absl::Milliseconds(20);
  return {rates};
}

const Roster kRoster({"paris", "tokyo"});

engine::CommitRecord Committed(int64_t round, std::vector<engine::PlanId> plans = {0, 0}) {
  engine::CommitRecord record;
  record.state.round = round;
  for (size_t i = 0; i < plans.size(); ++i) {
    engine::Contributor contributor;
    contributor.cluster = static_cast<engine::ClusterId>(i);
    contributor.plan = plans[i];
    record.contributors.push_back(contributor);
  }
  return record;
}

// One round of both members, as paris sees it.
std::optional<engine::ProposePlan> Round(RunPlanning* planning, int64_t round,
                                         double bytes_per_second) {
  planning->OnCommitted(Committed(round), 0.3);
  planning->OnApplied(0, 1'000'000);
  planning::MemberReport mine = planning->Measure(Rates(bytes_per_second));
  planning::MemberReport theirs = mine;
  theirs.links = {{0, mine.links.at(1)}};
  planning->TakeReport(0, mine);
  if (planning->Propose(engine::ClusterSet{0, 1}, 10'000'000, {})) FAIL("tokyo has not told yet");
  planning->TakeReport(1, theirs);
  return planning->Propose(engine::ClusterSet{0, 1}, 10'000'000, {});
}

TEST_CASE("a step is the middle one of the newest paces, of the slowest rank") {
  const config::Run config = Auto();
  RunPlanning planning(config, kRoster);
  CHECK(planning.Measure({}).step_seconds == 0);
  planning.OnApplied(0, 0);  // unknown
  CHECK(planning.Measure({}).step_seconds == 0);
  for (const uint32_t us : {1'000'000u, 1'100'000u, 60'000'000u}) planning.OnApplied(0, us);
  CHECK(planning.Measure({}).step_seconds == Approx(0.11));  // a pause is no step
  planning.OnApplied(1, 2'000'000);
  CHECK(planning.Measure({}).step_seconds == Approx(0.2));
  planning.OnTrainerGone();
  CHECK(planning.Measure({}).step_seconds == 0);
}

TEST_CASE("links that are down and clusters of other runs are not told") {
  const config::Run config = Auto();
  RunPlanning planning(config, kRoster);
  std::vector<transport::PeerRates> rates = Rates(1e6);
  rates.push_back(rates[0]);
  rates[1].cluster = "oslo";
  CHECK(planning.Measure(rates).links.size() == 1);
  CHECK(planning.Measure(rates).links.at(1).rtt_seconds == Approx(0.02));
  rates[0].up = false;
  CHECK(planning.Measure(rates).links.empty());
}

TEST_CASE("a report is due after each round and now and then, where there is something to choose") {
  const config::Run config = Auto();
  RunPlanning planning(config, kRoster);
  planning.Reported(1'000'000);
  CHECK_FALSE(planning.ReportDue(1'500'000));
  planning.OnCommitted(Committed(1), 0.1);
  CHECK(planning.ReportDue(1'500'000));
  planning.Reported(1'500'000);
  planning.OnCommitted(Committed(1), 0.1);  // of another fragment
  CHECK_FALSE(planning.ReportDue(1'600'000));
  CHECK(planning.ReportDue(60'000'000));
  config::Run fixed = Auto();
  fixed.codec.ladder.clear();
  CHECK_FALSE(RunPlanning(fixed, kRoster).ReportDue(60'000'000));
}

TEST_CASE("the leader proposes once all members have told, and members follow") {
  const config::Run config = Auto();
  RunPlanning paris(config, kRoster);
  RunPlanning tokyo(config, kRoster);
  CHECK(paris.newest().codec.ToString() == "int4:b64:ef");
  std::optional<engine::ProposePlan> plan;
  int64_t round = 0;
  while (!plan && round < 10) plan = Round(&paris, ++round, 100e6);
  REQUIRE(plan);
  CHECK(plan->from_round == round + 1);
  const engine::Plan sent{7, plan->from_round, plan->body};
  REQUIRE(tokyo.Check(sent).ok());
  CHECK(tokyo.OnPlanKnown({sent, std::nullopt}));
  CHECK(tokyo.newest().codec.ToString() == "int8:b256:ef");
  CHECK(tokyo.newest_from() == round + 1);
  REQUIRE(tokyo.book().Find(7) != nullptr);
  CHECK(tokyo.book().Find(0)->codec.ToString() == "int4:b64:ef");
  CHECK_FALSE(tokyo.OnPlanKnown({{5, 1, plan->body}, std::nullopt}));  // an older one, late
  tokyo.Reset();
  CHECK(tokyo.newest().codec.ToString() == "int4:b64:ef");
  CHECK(tokyo.book().Find(7) == nullptr);
}

TEST_CASE("after a rollback rounds are reported and planned from there on") {
  const config::Run config = Auto();
  RunPlanning paris(config, kRoster);
  std::optional<engine::ProposePlan> plan;
  for (int64_t round = 1; round <= 40; ++round) Round(&paris, round, 5e6);
  paris.Reported(0);
  paris.OnRolledBack(20);
  CHECK(paris.ReportDue(1));
  CHECK_FALSE(paris.Propose(engine::ClusterSet{0, 1}, 10'000'000, {}));  // nobody has told of these
  // What tokyo said of the rounds that have not been comes late.
  planning::MemberReport late = paris.Measure(Rates(5e6));
  late.round = 40;
  late.links = {{0, late.links.at(1)}};
  paris.TakeReport(1, late);
  for (int64_t round = 21; !plan && round < 30; ++round) plan = Round(&paris, round, 100e6);
  REQUIRE(plan);
  CHECK(plan->from_round <= 30);
}

TEST_CASE("a plan of rounds that are far away does not stop the planner") {
  const config::Run config = Auto();
  RunPlanning paris(config, kRoster);
  planning::Plan same;
  same.codec = *compression::CodecSpec::Parse("int4:b64:ef");
  CHECK(paris.OnPlanKnown({{7, int64_t{1} << 40, EncodePlan(kRoster, same)}, std::nullopt}));
  std::optional<engine::ProposePlan> plan;
  for (int64_t round = 1; !plan && round < 20; ++round) plan = Round(&paris, round, 100e6);
  CHECK(plan);
}

TEST_CASE("a plan outside of the configuration never reaches the engine") {
  const config::Run config = Auto();
  RunPlanning planning(config, kRoster);
  planning::Plan plan;
  plan.codec = *compression::CodecSpec::Parse("sign:ef");
  CHECK_FALSE(planning.Check({1, 1, EncodePlan(kRoster, plan)}).ok());
  CHECK_FALSE(planning.Check({1, 1, "\xff\xff"}).ok());
  config::Run direct = Auto();
  direct.route = config::Route::kDirect;
  plan.codec = *compression::CodecSpec::Parse("int8:ef");
  plan.route = planning::Route::kOwner;
  plan.parts = {{0, planning::kShareParts}};
  CHECK(planning.Check({1, 1, EncodePlan(kRoster, plan)}).ok());
  CHECK_FALSE(RunPlanning(direct, kRoster).Check({1, 1, EncodePlan(kRoster, plan)}).ok());
}

}  // namespace
}  // namespace causeway::run
