// The engine at scale: rounds take what the cost model says, and each member says a few words to
// each other one.
#include "tests/sim/scale.h"

#include <catch2/catch.hpp>

namespace causeway::sim {
namespace {

ScaleOptions Options(const std::vector<double>& megabit, bool owner) {
  ScaleOptions options;
  for (size_t id = 0; id < megabit.size(); ++id) {
    const double rate = megabit[id] * 1e6 / 8;
    options.exchange.lines[static_cast<engine::ClusterId>(id)] = {rate, rate};
  }
  options.exchange.rtt_seconds = 0.05;
  options.exchange.elements = 20'000'000;
  options.plan.codec = *compression::CodecSpec::Parse("int8:ef");
  options.plan = planning::Routed(options.plan, options.exchange, !owner, owner);
  return options;
}

void Check(const ScaleOptions& options, double slack) {
  const ScaleResult result = RunScale(options);
  const double model = planning::CostOf(options.plan, options.exchange).seconds();
  const auto n = static_cast<double>(options.exchange.lines.size());
  INFO("clusters " << n << ", " << result.round_seconds << " s, model " << model << " s, messages "
                   << result.control_messages);
  // The second hop's half round trip may hide behind bytes that are still on their way.
  CHECK(result.round_seconds >= model * 0.99 - options.exchange.rtt_seconds / 2);
  CHECK(result.round_seconds <= model * slack);
  CHECK(result.plan_named);
  // What is outstanding is said again with every heartbeat, each two seconds.
  const double said = 4 + 2 * result.round_seconds;
  CHECK(result.control_messages <= said * n);
  CHECK(result.control_messages_leader <= (said + 1) * n);
}

TEST_CASE("direct rounds take what the model says, and so do rounds by owner") {
  for (const size_t clusters : {size_t{2}, size_t{3}, size_t{8}, size_t{20}}) {
    Check(Options(std::vector<double>(clusters, 400), false), 1.2);
    if (clusters > 2) Check(Options(std::vector<double>(clusters, 400), true), 1.3);
  }
}

TEST_CASE("unequal lines: the shares that the model chooses come close to what it promises") {
  Check(Options({400, 100, 100}, true), 1.25);
  Check(Options({1000, 400, 200, 100, 100}, true), 1.3);
}

TEST_CASE("every cluster of 64 takes part, by owner, in a fraction of the direct time") {
  ScaleOptions options = Options(std::vector<double>(64, 1000), true);
  options.rounds = 1;
  const ScaleResult owner = RunScale(options);
  options.plan = planning::Routed(options.plan, options.exchange, true, false);
  const ScaleResult direct = RunScale(options);
  INFO(owner.round_seconds << " " << direct.round_seconds << " " << owner.control_messages);
  CHECK(owner.plan_named);
  CHECK(owner.round_seconds < direct.round_seconds / 10);
  CHECK(owner.control_messages <= 6 * 64);
}

}  // namespace
}  // namespace causeway::sim
