// What a gateway that knows of no run says about why there is none.
#include <catch2/catch.hpp>

#include "daemon/engine/engine.h"

namespace causeway::engine {
namespace {

TEST_CASE("a gateway that forgot its run names who still has it", "[forming]") {
  Config config;
  config.clusters = 3;
  config.incarnation = 10;
  config.electorate.voters = ClusterSet{0, 1, 2};
  config.hash = [](std::span<const uint8_t>) { return Hash256{1}; };
  Engine engine(config, Durable(), 1);
  engine.Handle(0, Start());
  CHECK(engine.Snapshot().phase == Phase::kForming);
  const auto hear = [&](ClusterId from, bool virgin) {
    Join join;
    join.schema_known = true;
    join.virgin = virgin;
    engine.Handle(1, Received{from, {{{}, 0, Incarnation{10} + from, 10}, join}});
  };
  hear(1, true);
  const Status before = engine.Snapshot();
  CHECK(before.awaited == (ClusterSet{0, 2}));
  CHECK(before.reason.find("forget") == std::string::npos);
  hear(2, false);
  const Status after = engine.Snapshot();
  CHECK(after.phase == Phase::kForming);
  CHECK(after.awaited == ClusterSet{2});
  CHECK(after.reason.find("forget it on all of them") != std::string::npos);
}

}  // namespace
}  // namespace causeway::engine
