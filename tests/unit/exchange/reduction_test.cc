// Weights and sums: order, rounding, exactness of equal weights.
#include "daemon/exchange/reduction.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "compression/codec.h"

namespace causeway::exchange {
namespace {

struct Fixture {
  std::shared_ptr<memory::Budget> budget = memory::Budget::Create(1 << 24);
  memory::BufferPool pool{budget, *budget->Open("chunks"), 0};

  memory::SharedBuffer Encode(const std::vector<float>& values) {
    compression::CodecSpec fp32;
    compression::EncodeInput input;
    input.snapshot = values.data();
    input.n = static_cast<uint32_t>(values.size());
    compression::EncodeStats stats;
    auto buffer = pool.Allocate(compression::EncodedSizeMax(fp32, input.n));
    REQUIRE(buffer.ok());
    auto* bytes = reinterpret_cast<uint8_t*>(buffer->data());
    buffer->Resize(compression::EncodeChunk(fp32, input, {bytes, buffer->size()}, &stats));
    return memory::SharedBuffer(*std::move(buffer));
  }
  std::vector<float> Combine(const std::vector<std::vector<float>>& inputs,
                             const std::vector<uint64_t>& weights, bool senders = false) {
    std::vector<engine::Contributor> contributors;
    std::vector<EncodedPart> parts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      contributors.push_back({static_cast<engine::ClusterId>(i), 1, {}, weights[i]});
      parts.push_back({Encode(inputs[i]), {}, false});
    }
    ReducedChunk out;
    out.mean = *pool.Allocate(inputs[0].size() * sizeof(float));
    const auto combine = senders ? CombineSenders : CombineChunk;
    REQUIRE_FALSE(combine(nullptr, parts, WeightsOf(contributors), &out));
    Seal(&out);
    hash = out.hash;
    nonfinite = out.nonfinite;
    const auto* mean = reinterpret_cast<const float*>(out.mean.data());
    return {mean, mean + inputs[0].size()};
  }
  engine::Hash64 hash = 0;
  bool nonfinite = false;
};

TEST_CASE_METHOD(Fixture, "equal weights: the mean of equal values is exact for two clusters") {
  const std::vector<float> x = {0.1f, -3.3e-7f, 1e30f, 0, -1e-40f};
  CHECK(Combine({x, x}, {12345, 12345}) == x);
  CHECK(Combine({x}, {77}) == x);
}

TEST_CASE_METHOD(Fixture, "the mean of senders follows its float64 reference") {
  for (const std::vector<uint64_t>& weights :
       {std::vector<uint64_t>{7, 7, 7}, std::vector<uint64_t>{3, 1000, 41}}) {
    std::vector<std::vector<float>> inputs(3, std::vector<float>(600));
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 600; ++k) {
        const bool sent = (k >> i) % 2 == 1;  // by each subset of the clusters
        inputs[i][k] = sent ? std::sin(static_cast<float>(37 * k + i)) : 0.0f;
      }
    }
    const std::vector<float> mean = Combine(inputs, weights, true);
    for (size_t k = 0; k < 600; ++k) {
      double sum = 0;
      double total = 0;
      for (size_t i = 0; i < 3; ++i) {
        if (inputs[i][k] == 0.0f) continue;
        sum += static_cast<double>(weights[i]) * static_cast<double>(inputs[i][k]);
        total += static_cast<double>(weights[i]);
      }
      REQUIRE(mean[k] == Approx(total > 0 ? sum / total : 0.0).margin(1e-6));
    }
  }
}

TEST_CASE_METHOD(Fixture, "the mean of senders: what one alone sends arrives as it is, NaN too") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> mean =
      Combine({{0.3f, 0, 0, 0.5f}, {0, -7, 0, nan}, {0, 0, 0, 0}}, {9, 9, 9}, true);
  CHECK(mean[0] == 0.3f);
  CHECK(mean[1] == -7.0f);
  CHECK(mean[2] == 0.0f);
  CHECK(std::isnan(mean[3]));
  CHECK(nonfinite);
}

TEST_CASE_METHOD(Fixture, "other weights: fl(w d) summed in order, then scaled by fl(1/W)") {
  const float a = 0.3f;
  const float b = -0.7f;
  const float expected = (3.0f * a + 5.0f * b) * static_cast<float>(1.0 / 8.0);
  CHECK(Combine({{a}, {b}}, {3, 5})[0] == expected);
  CHECK(Combine({{a}, {b}}, {0, 5})[0] == (0.0f * a + 5.0f * b) * static_cast<float>(1.0 / 5.0));
}

TEST_CASE_METHOD(Fixture, "the sum runs in the order of the contributors") {
  // (1e8 + 1) - 1e8 differs from (1e8 - 1e8) + 1 in fp32.
  CHECK(Combine({{1e8f}, {1.0f}, {-1e8f}}, {1, 1, 1})[0] == 0.0f);
  CHECK(Combine({{1e8f}, {-1e8f}, {1.0f}}, {1, 1, 1})[0] == 1.0f * static_cast<float>(1.0 / 3));
}

TEST_CASE_METHOD(Fixture, "NaN is seen and canonical") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = Combine({{1, nan}, {1, 1}}, {1, 1});
  CHECK(nonfinite);
  CHECK(std::isnan(out[1]));
  CHECK(out[0] == 1.0f);
}

TEST_CASE("a round without weight changes nothing") {
  engine::Reduce order;
  const auto unchanged = [&order] { return Reduction(order, {}, 0, 1).unchanged(); };
  CHECK(unchanged());
  order.contributors = {{0, 1, {}, 0}, {1, 1, {}, 0}};
  CHECK(unchanged());
  order.contributors[1].weight = 1;
  CHECK_FALSE(unchanged());
}

}  // namespace
}  // namespace causeway::exchange
