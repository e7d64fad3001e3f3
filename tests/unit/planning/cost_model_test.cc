// The model's arithmetic against counting chunk by chunk, its shares against brute force and the
// closed form.
#include "daemon/planning/cost_model.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace causeway::planning {
namespace {

constexpr uint64_t kElements = uint64_t{256} * compression::kChunkElements;

compression::CodecSpec Codec(const char* text) { return *compression::CodecSpec::Parse(text); }

Exchange Between(const std::vector<double>& rates, double rtt_seconds = 0) {
  Exchange out;
  out.rtt_seconds = rtt_seconds;
  out.elements = kElements;
  for (size_t i = 0; i < rates.size(); ++i) {
    out.lines[static_cast<engine::ClusterId>(i)] = {rates[i], rates[i]};
  }
  return out;
}

Plan Int8() {
  Plan plan;
  plan.codec = Codec("int8:ef");
  return plan;
}

double Rate(std::mt19937_64* random) {
  return std::exp(std::uniform_real_distribution<double>(std::log(1e6), std::log(1e9))(*random));
}

// Every byte through every line, chunk by chunk, by the owners that the exchange would use.
double CountedSeconds(const Plan& plan, const Exchange& exchange) {
  const auto chunks = static_cast<uint32_t>(exchange.elements / compression::kChunkElements);
  const std::vector<engine::ClusterId> owners = OwnersOf(plan, chunks);
  std::map<engine::ClusterId, Line> bytes;
  const auto move = [&](engine::ClusterId from, engine::ClusterId to,
                        const compression::CodecSpec& codec) {
    const double size = EncodedBytes(codec, compression::kChunkElements);
    bytes[from].out += size;
    bytes[to].in += size;
  };
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (const auto& [from, line] : exchange.lines) {
      for (const auto& [to, other] : exchange.lines) {
        if (from == to) continue;
        const bool direct = plan.route == Route::kDirect;
        if (direct || to == owners[chunk]) move(from, to, plan.ContributionCodec(from));
        if (!direct && from == owners[chunk]) move(from, to, plan.codec);
      }
    }
  }
  double seconds = 0;
  for (const auto& [cluster, line] : exchange.lines) {
    seconds = std::max({seconds, bytes[cluster].out / line.out, bytes[cluster].in / line.in});
  }
  return seconds;
}

TEST_CASE("a cost is what counting the bytes of every chunk gives") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const auto n = static_cast<int>(2 + random() % 6);
    Exchange exchange = Between(std::vector<double>(static_cast<size_t>(n), 1), 0.1);
    Plan plan = Int8();
    for (auto& [cluster, line] : exchange.lines) {
      line = {Rate(&random), Rate(&random)};
      if (random() % 3 == 0) plan.codecs[cluster] = Codec("int4:ef");
    }
    if (random() % 2 == 0) {
      plan.route = Route::kOwner;
      plan.parts = PartsOf(BestShares(plan, exchange));
    }
    const Cost cost = CostOf(plan, exchange);
    INFO("clusters " << n << ", route " << static_cast<int>(plan.route));
    // Owners get whole chunks: to within one chunk of each of the 256 and its results.
    const double counted = CountedSeconds(plan, exchange);
    CHECK(cost.transfer_seconds == Approx(counted).epsilon(0.05));
    CHECK(cost.latency_seconds == Approx(plan.route == Route::kOwner ? 0.15 : 0.1));
  }
}

TEST_CASE("packed bytes are what is known of their codec, where the codec may be packed") {
  Exchange exchange = Between({1e7, 1e7});
  exchange.packed[compression::CodecKind::kInt8] = 1.25;
  const double plain = EncodedBytes(Codec("int8"), kElements);
  CHECK(SentBytes(Codec("int8"), exchange) == plain);
  CHECK(SentBytes(Codec("int8:zstd"), exchange) == Approx(plain / 1.25));
  CHECK(SentBytes(Codec("int4:zstd"), exchange) == EncodedBytes(Codec("int4"), kElements));
  Plan plan = Int8();
  const Cost before = CostOf(plan, exchange);
  plan.codec.entropy = true;
  CHECK(CostOf(plan, exchange).transfer_seconds == Approx(before.transfer_seconds / 1.25));
}

TEST_CASE("the shares are the closed form where codecs are equal") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const size_t n = 3 + random() % 62;
    std::vector<double> rates;
    double sum = 0;
    double least = 1e300;
    for (size_t i = 0; i < n; ++i) {
      rates.push_back(Rate(&random));
      sum += rates.back();
      least = std::min(least, rates.back());
    }
    const Exchange exchange = Between(rates);
    const Plan plan = Int8();
    const double data = EncodedBytes(plan.codec, kElements);
    const double best = std::max(1 / least, 2 * (static_cast<double>(n) - 1) / sum) * data;
    const std::map<engine::ClusterId, double> shares = BestShares(plan, exchange);
    double worst = 0;
    double all = 0;
    for (const auto& [cluster, share] : shares) {
      REQUIRE(share >= 0);
      all += share;
      worst = std::max(worst, (1 + (static_cast<double>(n) - 2) * share) / rates[cluster] * data);
    }
    REQUIRE(all == Approx(1));
    REQUIRE(worst == Approx(best).epsilon(1e-6));
  }
}

// Seconds of the slowest line with exact shares, not rounded to parts.
double SecondsWith(const std::vector<double>& shares, const Plan& plan, const Exchange& exchange) {
  const double result = EncodedBytes(plan.codec, exchange.elements);
  double seconds = 0;
  for (const auto& [cluster, line] : exchange.lines) {
    const double own = EncodedBytes(plan.ContributionCodec(cluster), exchange.elements);
    double others = 0;
    for (const auto& [other, unused] : exchange.lines) {
      if (other != cluster) others += EncodedBytes(plan.ContributionCodec(other), kElements);
    }
    const double share = shares[cluster];
    const auto peers = static_cast<double>(shares.size() - 1);
    seconds = std::max({seconds, ((1 - share) * own + share * peers * result) / line.out,
                        (share * others + (1 - share) * result) / line.in});
  }
  return seconds;
}

TEST_CASE("no shares of a fine grid are better, whatever lines and codecs") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 60; ++repeat) {
    Exchange exchange = Between({1, 1, 1});
    Plan plan = Int8();
    for (auto& [cluster, line] : exchange.lines) {
      line = {Rate(&random), Rate(&random)};
      if (random() % 2 == 0)
        plan.codecs[cluster] = Codec(random() % 2 == 0 ? "int4:ef" : "sign:ef");
    }
    std::vector<double> found;
    for (const auto& [cluster, share] : BestShares(plan, exchange)) found.push_back(share);
    const double seconds = SecondsWith(found, plan, exchange);
    constexpr int kGrid = 60;
    for (int a = 0; a <= kGrid; ++a) {
      for (int b = 0; a + b <= kGrid; ++b) {
        const double other =
            SecondsWith({a / 60.0, b / 60.0, (kGrid - a - b) / 60.0}, plan, exchange);
        REQUIRE(seconds <= other * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("one fast line owns everything where the others can only just carry their own") {
  const std::map<engine::ClusterId, double> shares = BestShares(Int8(), Between({400, 100, 100}));
  CHECK(shares.at(0) == Approx(1).margin(1e-6));
  CHECK(shares.at(1) == Approx(0).margin(1e-6));
}

TEST_CASE("parts sum up and follow the shares") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::map<engine::ClusterId, double> shares;
    double sum = 0;
    for (size_t i = 0; i < 1 + random() % 64; ++i) {
      sum += shares[static_cast<engine::ClusterId>(i)] = static_cast<double>(random() % 1000 + 1);
    }
    for (auto& [cluster, share] : shares) share /= sum;
    uint32_t all = 0;
    for (const auto& [cluster, part] : PartsOf(shares)) {
      all += part;
      REQUIRE(std::abs(part - shares[cluster] * kShareParts) <= 1);
    }
    REQUIRE(all == kShareParts);
  }
}

TEST_CASE("two clusters go direct, many go by owner, few bytes go direct") {
  CHECK(Routed(Int8(), Between({1e6, 1e6}, 0.1), true, true).route == Route::kDirect);
  CHECK(Routed(Int8(), Between({1e6, 1e6, 1e6}, 0.1), true, true).route == Route::kOwner);
  Exchange few = Between({1e9, 1e9, 1e9}, 0.1);
  few.elements = 1000;
  CHECK(Routed(Int8(), few, true, true).route == Route::kDirect);
  CHECK(Routed(Int8(), few, false, true).route == Route::kOwner);
  CHECK(Routed(Int8(), Between({1e6, 1e6, 1e6}), true, false).route == Route::kDirect);
}

TEST_CASE("the route that is taken is never the dearer one") {
  const uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<double> rates;
    for (size_t i = 0; i < 2 + random() % 10; ++i) rates.push_back(Rate(&random));
    Exchange exchange = Between(rates, 0.001 * static_cast<double>(random() % 300));
    exchange.elements = uint64_t{1} << (10 + random() % 20);
    const double chosen = CostOf(Routed(Int8(), exchange, true, true), exchange).seconds();
    CHECK(chosen <= CostOf(Routed(Int8(), exchange, true, false), exchange).seconds());
    CHECK(chosen <= CostOf(Routed(Int8(), exchange, false, true), exchange).seconds());
  }
}

}  // namespace
}  // namespace causeway::planning
