// Plans and reports survive the wire; hostile ones are refused with the field named.
#include "daemon/run/plan_codec.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "daemon/engine/message.h"

namespace causeway::run {
namespace {

compression::CodecSpec Codec(const char* text) { return *compression::CodecSpec::Parse(text); }

const Roster kRoster({"tokyo", "paris", "lima"});  // sorted: lima 0, paris 1, tokyo 2
const PlanBounds kBounds = {{Codec("int8:ef"), Codec("int4:ef")}, true, true};

planning::Plan ByOwner() {
  planning::Plan plan;
  plan.codec = Codec("int8:ef");
  plan.route = planning::Route::kOwner;
  plan.parts = {{0, 2048}, {2, 2048}};
  plan.codecs = {{1, Codec("int4:ef")}};
  plan.reason = "because";
  return plan;
}

wan::v1::PlanBody Body() {
  wan::v1::PlanBody body;
  REQUIRE(body.ParseFromString(EncodePlan(kRoster, ByOwner())));
  return body;
}

std::string Refusal(const wan::v1::PlanBody& body, const PlanBounds& bounds = kBounds) {
  const auto plan = DecodePlan(kRoster, bounds, body.SerializeAsString());
  return plan.ok() ? "accepted" : std::string(plan.status().message());
}

TEST_CASE("plans survive the wire") {
  planning::Plan direct;
  direct.codec = Codec("int4:ef");
  for (const planning::Plan& plan : {direct, ByOwner()}) {
    const auto back = DecodePlan(kRoster, kBounds, EncodePlan(kRoster, plan));
    INFO(back.status());
    REQUIRE(back.ok());
    CHECK(*back == plan);
  }
}

TEST_CASE("the longest plan fits what the engine carries") {
  std::vector<std::string> names;
  planning::Plan plan = ByOwner();
  plan.parts.clear();
  plan.codecs.clear();
  plan.codec = Codec("topk:k10000:v4:ef:decay950");
  for (int id = 0; id < engine::kClustersMax; ++id) {
    names.push_back("cluster-" + std::to_string(100 + id) + std::string(50, 'x'));
    plan.parts[static_cast<engine::ClusterId>(id)] = planning::kShareParts / engine::kClustersMax;
    plan.codecs[static_cast<engine::ClusterId>(id)] = plan.codec;
  }
  plan.reason = std::string(2000, 'r');
  const Roster roster(names);
  const std::string bytes = EncodePlan(roster, plan);
  CHECK(bytes.size() <= engine::kPlanBytesMax);
  const auto back = DecodePlan(roster, {{plan.codec}, true, true}, bytes);
  REQUIRE(back.ok());
  CHECK(back->parts == plan.parts);
  CHECK(back->reason.size() == planning::kReasonBytesMax);
}

TEST_CASE("hostile plans are refused by name") {
  wan::v1::PlanBody body = Body();
  REQUIRE(Refusal(body) == "accepted");
  SECTION("a codec that is none") {
    body.set_codec("int5");
    CHECK(Refusal(body).find("plan.codec: ") == 0);
  }
  SECTION("a codec that the run does not allow") {
    body.set_codec("sign:ef");
    CHECK(Refusal(body).find("not what the run allows") != std::string::npos);
  }
  SECTION("a codec without end") {
    body.set_codec(std::string(1000, ':'));
    CHECK(Refusal(body).find("plan.codec: ") == 0);
  }
  SECTION("an unknown route, and one that the run does not allow") {
    body.set_route(3);
    CHECK(Refusal(body).find("plan.route: 3") == 0);
    CHECK(Refusal(Body(), {kBounds.codecs, true, false}).find("plan.route: 2") == 0);
    body = Body();
    body.set_route(1);
    body.clear_parts();
    CHECK(Refusal(body) == "accepted");
    CHECK(Refusal(body, {kBounds.codecs, false, true}).find("plan.route: 1") == 0);
  }
  SECTION("shares that do not fit the clusters or do not sum up") {
    body.add_parts(0);
    CHECK(Refusal(body).find("plan.parts: 4 shares") == 0);
    body = Body();
    body.set_parts(0, 2049);
    CHECK(Refusal(body).find("plan.parts: 4097 in all") == 0);
    body.set_parts(0, 0xffffffff);  // must not wrap to a good sum
    body.set_parts(1, 2049);
    body.set_parts(2, 2048);
    CHECK(Refusal(body).find("plan.parts: ") == 0);
  }
  SECTION("shares without owners") {
    body.set_route(1);
    CHECK(Refusal(body).find("plan.parts") == 0);
  }
  SECTION("codecs of clusters out of range, twice or out of order") {
    body.mutable_codecs(0)->set_cluster(3);
    CHECK(Refusal(body).find("plan.codecs: cluster 3") == 0);
    body.mutable_codecs(0)->set_cluster(0xffffffff);
    CHECK(Refusal(body).find("plan.codecs: ") == 0);
    body = Body();
    *body.add_codecs() = body.codecs(0);
    CHECK(Refusal(body).find("plan.codecs: cluster 1") == 0);
  }
  SECTION("a reason that would forge a log line") {
    body.set_reason("a\nb\x1b");
    CHECK(DecodePlan(kRoster, kBounds, body.SerializeAsString())->reason == "a?b?");
  }
}

TEST_CASE("random bytes never make more than a refusal") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const std::string good = EncodePlan(kRoster, ByOwner());
  for (int repeat = 0; repeat < 20000; ++repeat) {
    std::string bytes = good;
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto plan = DecodePlan(kRoster, kBounds, bytes);
    if (plan.ok()) {
      REQUIRE(DecodePlan(kRoster, kBounds, EncodePlan(kRoster, *plan)).value() == *plan);
    }
  }
}

TEST_CASE("reports survive the wire; nonsense in them is refused") {
  planning::MemberReport report;
  report.links[0] = {12.5e6, 11e6, 0.1};
  report.links[2] = {1e6, 0, 0};
  report.step_seconds = 0.4;
  report.exchange_seconds = 2.5;
  report.round = 40;
  wan::v1::LinkReport wire = EncodeLinkReport(kRoster, report);
  REQUIRE(DecodeLinkReport(kRoster, wire).value() == report);
  const auto refusal = [&] {
    return std::string(DecodeLinkReport(kRoster, wire).status().message());
  };
  SECTION("a cluster that is none of the run's") {
    wire.mutable_links(0)->set_cluster("atlantis");
    CHECK(refusal().find("unknown or out of order") != std::string::npos);
  }
  SECTION("a cluster twice") {
    *wire.add_links() = wire.links(1);
    CHECK(refusal().find("out of order") != std::string::npos);
  }
  SECTION("more links than clusters") {
    for (int i = 0; i < 10; ++i) *wire.add_links() = wire.links(1);
    CHECK(refusal().find("more than clusters") != std::string::npos);
  }
  SECTION("numbers out of range") {
    wire.mutable_links(0)->set_rtt_us(UINT64_MAX);
    CHECK(refusal().find("rtt_us") != std::string::npos);
    wire.mutable_links(0)->set_rtt_us(1);
    wire.set_round(-1);
    CHECK(refusal().find("round") != std::string::npos);
  }
}

// The blocks of proto/WIRE.md that begin with ```wan NAME.
wan::v1::RunMessage Example(const std::string& name) {
  std::ifstream file(CAUSEWAY_WIRE_DOCUMENT);
  std::string line;
  std::string bytes;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.rfind("```", 0) == 0) inside = line == "```wan " + name;
    if (!inside || line[0] == '`') continue;
    std::istringstream words(line);
    std::string byte;
    while (words >> byte) bytes.push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
  }
  wan::v1::ControlFrame frame;
  REQUIRE(frame.ParseFromString(bytes));
  CHECK(frame.SerializeAsString() == bytes);
  return frame.run();
}

TEST_CASE("the document's plan and report are what this code writes and reads") {
  const Roster roster({"lima", "paris", "tokyo"});
  const wan::v1::Plan wire = Example("Plan").plan();
  CHECK(wire.id() == 0x3010001);
  CHECK(wire.from_round() == 41);
  const auto plan = DecodePlan(roster, kBounds, wire.body());
  INFO(plan.status());
  REQUIRE(plan.ok());
  CHECK(plan->parts == std::map<engine::ClusterId, uint32_t>{{0, 2048}, {1, 1024}, {2, 1024}});
  CHECK(plan->ContributionCodec(2) == Codec("int4:ef"));
  CHECK(plan->reason == "3 s hide behind 4 s");
  CHECK(EncodePlan(roster, *plan) == wire.body());

  const wan::v1::LinkReport report = Example("LinkReport").link_report();
  const auto back = DecodeLinkReport(roster, report);
  REQUIRE(back.ok());
  CHECK(back->links.at(1) == planning::LinkRate{12.5e6, 11e6, 0.10025});
  CHECK(back->step_seconds == 0.4);
  CHECK(back->exchange_seconds == 2.95);
  CHECK(back->round == 40);
  CHECK(EncodeLinkReport(roster, *back).SerializeAsString() == report.SerializeAsString());
}

}  // namespace
}  // namespace causeway::run
