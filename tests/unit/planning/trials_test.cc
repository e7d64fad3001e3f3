// The planner against lines that measurements do not show: flows share them fairly, and what
// members report are the rates of those flows.
#include "daemon/planning/trials.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "daemon/planning/ladder.h"
#include "daemon/planning/planner.h"

namespace causeway::planning {
namespace {

constexpr double kMegabit = 1e6 / 8;
constexpr double kRttSeconds = 0.1;

struct Flow {
  engine::ClusterId from;
  engine::ClusterId to;
  double bytes;
  double rate = 0;     // now
  double seconds = 0;  // that it took
  double bytes_moved = 0;
};

// Each line's capacity goes evenly to the flows that can use it: the tightest line first.
void ShareFairly(const std::vector<double>& lines, std::vector<Flow*> open) {
  std::vector<double> out = lines;
  std::vector<double> in = lines;
  while (!open.empty()) {
    double least = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t site = 0; site < lines.size(); ++site) {
        const auto users = std::count_if(open.begin(), open.end(), [&](const Flow* flow) {
          return (pass == 0 ? flow->from : flow->to) == site;
        });
        if (users == 0) continue;
        const double each = (pass == 0 ? out : in)[site] / static_cast<double>(users);
        if (least == 0 || each < least) least = each;
      }
    }
    // Flows through a line that is full at this rate are settled; all others can have more.
    std::vector<Flow*> rest;
    std::vector<Flow*> settled;
    for (Flow* flow : open) {
      const auto full = [&](bool sends, size_t site) {
        const auto users = std::count_if(open.begin(), open.end(), [&](const Flow* other) {
          return (sends ? other->from : other->to) == site;
        });
        return (sends ? out : in)[site] / static_cast<double>(users) <= least * (1 + 1e-9);
      };
      (full(true, flow->from) || full(false, flow->to) ? settled : rest).push_back(flow);
    }
    for (Flow* flow : settled) {
      flow->rate = least;
      out[flow->from] -= least;
      in[flow->to] -= least;
    }
    open = rest;
  }
}

struct HiddenLines {
  std::vector<double> lines;  // bytes a second
  double noise = 0;
  std::mt19937_64 random{1};
  uint64_t elements = 25'000'000;
  engine::RoundNumber round = 0;
  std::map<std::pair<int, int>, double> measured;

  explicit HiddenLines(const std::vector<double>& megabit) {
    for (double rate : megabit) lines.push_back(rate * kMegabit);
  }

  double Run(const Plan& plan, Situation* out) {
    const double bytes = EncodedBytes(plan.codec, elements);
    std::vector<Flow> flows;
    const auto share = [&](size_t site) {
      const auto part = plan.parts.find(static_cast<engine::ClusterId>(site));
      return part == plan.parts.end() ? 0.0 : static_cast<double>(part->second) / kShareParts;
    };
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t j = 0; j < lines.size(); ++j) {
        const double part = plan.route == Route::kDirect ? 1 : share(i) + share(j);
        if (i != j && part > 0) {
          flows.push_back(
              {static_cast<engine::ClusterId>(i), static_cast<engine::ClusterId>(j), part * bytes});
        }
      }
    }
    double seconds = 0;
    while (true) {
      std::vector<Flow*> open;
      for (Flow& flow : flows) {
        if (flow.bytes > 1) open.push_back(&flow);
      }
      if (open.empty()) break;
      ShareFairly(lines, open);
      double step = 1e9;
      for (const Flow* flow : open) step = std::min(step, flow->bytes / flow->rate);
      for (Flow* flow : open) {
        flow->bytes -= flow->rate * step;
        flow->bytes_moved += flow->rate * step;
        flow->seconds += step;
      }
      seconds += step;
    }
    for (const Flow& flow : flows) {
      measured[{flow.from, flow.to}] = flow.bytes_moved / flow.seconds;
    }
    const double factor = 1 + noise * std::uniform_real_distribution<double>(-1, 1)(random);
    seconds = seconds * factor + RoundTrips(plan.route) * kRttSeconds;
    Report(plan, seconds, out);
    return seconds;
  }

  void Report(const Plan& plan, double seconds, Situation* out) {
    out->round = ++round;
    out->elements = elements;
    out->plan = plan;
    out->members = engine::ClusterSet::FirstOf(static_cast<int>(lines.size()));
    for (int i = 0; i < static_cast<int>(lines.size()); ++i) {
      MemberReport& report = out->reports[static_cast<engine::ClusterId>(i)];
      report.round = round;
      report.step_seconds = 0.1;
      report.exchange_seconds = seconds;
      for (int j = 0; j < static_cast<int>(lines.size()); ++j) {
        if (i != j) {
          report.links[static_cast<engine::ClusterId>(j)] = {measured[{i, j}], measured[{j, i}],
                                                             kRttSeconds};
        }
      }
    }
  }
};

PlannerRules Int8(size_t clusters) {
  PlannerRules rules;
  rules.ladder = *Ladder("int8", "int8", false);
  rules.pace.local_steps = 1;
  for (size_t i = 0; i < clusters; ++i) rules.names.push_back("site-" + std::to_string(i));
  return rules;
}

// Every plan takes effect a round late, as where a trainer submits at once.
struct Play {
  HiddenLines world;
  Planner planner;
  Plan plan;
  std::optional<Plan> next;
  int changes = 0;
  std::vector<double> seconds;

  Play(HiddenLines w, const PlannerRules& rules)
      : world(std::move(w)), planner(rules, First(rules)), plan(First(rules)) {}
  static Plan First(const PlannerRules& rules) {
    Plan plan;
    plan.codec = rules.ladder.back();
    return plan;
  }
  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      Situation situation;
      seconds.push_back(world.Run(plan, &situation));
      if (next) plan = *next;
      next = planner.Consider(situation);
      if (next) ++changes;
      INFO("round " << world.round << ": " << planner.view());
    }
  }
  double Best() const {
    Exchange exchange;
    exchange.rtt_seconds = kRttSeconds;
    exchange.elements = world.elements;
    for (size_t i = 0; i < world.lines.size(); ++i) {
      exchange.lines[static_cast<engine::ClusterId>(i)] = {world.lines[i], world.lines[i]};
    }
    return CostOf(Routed(plan, exchange, true, true), exchange).seconds();
  }
};

TEST_CASE("a line that its peers never let be used is found, wherever it is") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (const std::vector<double>& rates : {std::vector<double>{400, 100, 100},
                                           {100, 400, 100},
                                           {100, 100, 400},
                                           {100, 250, 100, 100},
                                           {100, 100, 100, 400}}) {
    for (const double noise : {0.0, 0.05}) {
      HiddenLines world(rates);
      world.noise = noise;
      world.random.seed(seed);
      Play play(world, Int8(rates.size()));
      play.Rounds(80);
      INFO("noise " << noise << ", " << play.planner.view());
      const double best = *std::min_element(play.seconds.end() - 5, play.seconds.end());
      CHECK(play.Best() / best > (noise > 0 ? 0.85 : 0.9));
    }
  }
}

TEST_CASE("equal lines: guesses are wrong, cost little, and become rare") {
  Play play(HiddenLines({100, 100, 100}), Int8(3));
  play.Rounds(60);
  const double best = play.Best();
  CHECK(play.seconds.back() == Approx(best).epsilon(0.02));
  play.seconds.clear();
  const int changes = play.changes;
  play.Rounds(1000);
  double sum = 0;
  for (double seconds : play.seconds) sum += seconds;
  CHECK(sum / 1000 < 1.02 * best);
  CHECK(play.changes - changes <= 2 * 3 * 4);
}

TEST_CASE("lines that become others are found again, also when guesses had become rare") {
  Play play(HiddenLines({400, 100, 100}), Int8(3));
  play.Rounds(800);
  CHECK(play.Best() / play.seconds.back() > 0.9);
  play.world.lines = HiddenLines({100, 100, 400}).lines;
  play.Rounds(40);
  INFO(play.planner.view());
  CHECK(play.Best() / play.seconds.back() > 0.9);
}

TEST_CASE("rounds that waver by a fifth do not hide a line that is four times as wide") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  int found = 0;
  for (int i = 0; i < 20; ++i) {
    HiddenLines world({100, 100, 400});
    world.noise = 0.2;
    world.random.seed(seed + static_cast<uint64_t>(i));
    Play play(world, Int8(3));
    play.Rounds(120);
    play.world.noise = 0;
    play.Rounds(1);
    found += play.Best() / play.seconds.back() > 0.9 ? 1 : 0;
  }
  CHECK(found >= 15);
}

TEST_CASE("nothing is guessed where the exchange hides") {
  PlannerRules rules = Int8(3);
  rules.pace.local_steps = 1000;
  rules.pace.delay = 500;
  Play play(HiddenLines({100, 100, 100}), rules);
  play.Rounds(200);
  CHECK(play.changes <= 1);
}

TEST_CASE("a way that turned out slower is left, and not tried again at once") {
  Trials trials;
  Plan before;
  Plan after = before;
  after.route = Route::kOwner;
  after.parts = {{0, kShareParts}};
  REQUIRE(trials.OnRound(1, before, &before, 2.0) == Trials::Verdict::kNone);
  trials.Propose(1, before, 0.4);
  CHECK(trials.OnRound(2, after, &before, 2.0) == Trials::Verdict::kWaits);  // not yet in force
  CHECK(trials.OnRound(3, after, nullptr, 0) == Trials::Verdict::kWaits);
  SECTION("clearly") { CHECK(trials.OnRound(4, after, &after, 2.5) == Trials::Verdict::kFailed); }
  SECTION("twice") {
    CHECK(trials.OnRound(4, after, &after, 2.0) == Trials::Verdict::kWaits);
    CHECK(trials.OnRound(5, after, &after, 1.7) == Trials::Verdict::kFailed);
  }
  SECTION("never ran") {
    CHECK(trials.OnRound(2 + Trials::kPatience, after, &before, 2.0) == Trials::Verdict::kFailed);
  }
  CHECK(SameWork(trials.before(), before));
  CHECK(trials.before_seconds() == 2.0);
  trials.Forget();
  CHECK(trials.held(12));
  trials.OnRound(12, before, &before, 2.1);
  CHECK(trials.held(12));
  trials.OnRound(13, before, &before, 3.5);  // the lines are others now
  CHECK_FALSE(trials.held(13));
}

TEST_CASE("a way that turned out faster stays") {
  Trials trials;
  Plan before;
  Plan after = before;
  after.route = Route::kOwner;
  after.parts = {{1, kShareParts}};
  trials.OnRound(1, before, &before, 2.0);
  trials.Propose(1, before, 0.4);
  CHECK(trials.OnRound(2, after, &after, 1.9) == Trials::Verdict::kWaits);
  CHECK(trials.OnRound(3, after, &after, 1.5) == Trials::Verdict::kStays);
  CHECK(trials.OnRound(4, after, &after, 9.0) == Trials::Verdict::kNone);
  CHECK_FALSE(trials.held(5));
}

}  // namespace
}  // namespace causeway::planning
