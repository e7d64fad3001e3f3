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
                             const std::vector<uint64_t>& weights) {
    std::vector<engine::Contributor> contributors;
    std::vector<memory::SharedBuffer> payloads;
    for (size_t i = 0; i < inputs.size(); ++i) {
      contributors.push_back({static_cast<engine::ClusterId>(i), 1, {}, weights[i]});
      payloads.push_back(Encode(inputs[i]));
    }
    std::vector<float> out(inputs[0].size());
    CombineChunk({}, nullptr, payloads, WeightsOf(contributors), absl::MakeSpan(out), &hash,
                 &nonfinite);
    return out;
  }
  engine::Hash64 hash = 0;
  bool nonfinite = false;
};

TEST_CASE_METHOD(Fixture, "equal weights: the mean of equal values is exact for two clusters") {
  const std::vector<float> x = {0.1f, -3.3e-7f, 1e30f, 0, -1e-40f};
  CHECK(Combine({x, x}, {12345, 12345}) == x);
  CHECK(Combine({x}, {77}) == x);
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
  CHECK(Reduction(order, 1).unchanged());
  order.contributors = {{0, 1, {}, 0}, {1, 1, {}, 0}};
  CHECK(Reduction(order, 1).unchanged());
  order.contributors[1].weight = 1;
  CHECK_FALSE(Reduction(order, 1).unchanged());
}

}  // namespace
}  // namespace causeway::exchange
