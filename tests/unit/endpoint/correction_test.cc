// Momentum correction of sparse gradients, against the equations in double precision.
#include "daemon/endpoint/correction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/endpoint/model.h"

namespace causeway::endpoint {
namespace {

using testing::Model;
using testing::Noise;
using testing::Record;

constexpr char kSparse[] = "topk:k500:v4:ef";
constexpr uint32_t kElements = 4096;  // one chunk without padding

std::vector<local::TensorRecord> OneTensor(local::DType dtype = local::DType::kFp32) {
  return {Record("w", {kElements}, dtype)};
}

std::vector<float> Exchange(Model& model, int step, uint64_t weight = 1) {
  REQUIRE(model.endpoint->Begin(0, step, weight, 1).ok());
  std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
  model.endpoint->Commit(0);
  return sent;
}

TEST_CASE("what is sent is the largest of v, as u <- mu u + c g, v <- v + u have it") {
  const double mu = GENERATE(0.0, 0.5, 0.9);
  const double norm_max = GENERATE(0.0, 5.0);
  if (mu == 0 && norm_max == 0) return;  // plain error feedback
  Model model(OneTensor(), kSparse, false, 1, {mu, norm_max});
  std::vector<double> u(kElements, 0.0);
  std::vector<double> v(kElements, 0.0);
  for (int step = 0; step < 24; ++step) {
    INFO("mu " << mu << ", norm_max " << norm_max << ", step " << step);
    // Some elements always pull the same way, most are noise.
    const auto gradient = [step](uint64_t i) {
      return Noise(100 + static_cast<uint64_t>(step), i) + (i % 37 == 0 ? 0.25f : 0.0f);
    };
    double squares = 0;
    for (uint64_t i = 0; i < kElements; ++i) squares += std::pow(double{gradient(i)}, 2);
    const double norm = std::sqrt(squares);
    const double clip = norm_max > 0 && norm > norm_max ? norm_max / norm : 1.0;
    model.Write(0, gradient);
    const std::vector<float> sent = Exchange(model, step);

    double least_sent = std::numeric_limits<double>::infinity();
    double largest = 0;
    double largest_kept = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      u[i] = mu * u[i] + clip * double{gradient(i)};
      v[i] += u[i];
      largest = std::max(largest, std::fabs(v[i]));
    }
    size_t count = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      if (sent[i] == 0.0f) {
        largest_kept = std::max(largest_kept, std::fabs(v[i]));
        continue;
      }
      ++count;
      // Half a step of four bits, and what bf16 lost in v and u meanwhile.
      REQUIRE(std::fabs(sent[i] - v[i]) <= largest * (0.5 / 7 * 1.01 + 0.02));
      least_sent = std::min(least_sent, std::fabs(v[i]));
      v[i] -= sent[i];
      u[i] = 0;
    }
    REQUIRE(count > 0);
    REQUIRE(count <= (kElements * 500 + 9999) / 10000);
    REQUIRE(least_sent >= largest_kept - 0.03 * largest);
  }
}

TEST_CASE("without momentum, and a norm that is never reached, it is plain error feedback") {
  Model plain(OneTensor(), kSparse, false);
  Model corrected(OneTensor(), kSparse, false, 1, {0, 1e30});
  for (int step = 0; step < 6; ++step) {
    const auto gradient = [step](uint64_t i) { return Noise(static_cast<uint64_t>(step), i); };
    plain.Write(0, gradient);
    corrected.Write(0, gradient);
    REQUIRE(Exchange(plain, step) == Exchange(corrected, step));
  }
}

TEST_CASE("a contribution that counted nowhere leaves momentum and residual as they were") {
  Model model(OneTensor(local::DType::kBf16), kSparse, false, 1, {0.9, 2.0});
  model.Write(0, [](uint64_t i) { return Noise(1, i); });
  (void)Exchange(model, 0);
  model.Write(0, [](uint64_t i) { return Noise(2, i); });
  REQUIRE(model.endpoint->Begin(0, 1, 1, 1).ok());
  const auto first = model.EncodeAll(0);
  model.endpoint->Drop(0);
  REQUIRE(model.endpoint->Begin(0, 1, 1, 1).ok());
  CHECK(model.EncodeAll(0) == first);
  model.endpoint->Drop(0);
  model.endpoint->ResetResidual(0);  // and with the residual goes the momentum
  Model fresh(OneTensor(local::DType::kBf16), kSparse, false, 1, {0.9, 2.0});
  fresh.Write(0, [](uint64_t i) { return Noise(2, i); });
  CHECK(Exchange(model, 1) == Exchange(fresh, 1));
}

TEST_CASE("with another weight momentum counts as what it was") {
  Model model(OneTensor(), kSparse, false, 1, {0.5, 0});
  model.Write(0, [](uint64_t i) { return Noise(1, i); });
  (void)Exchange(model, 0, 4);
  // No gradient, half the weight: u and v count twice.
  Model same(OneTensor(), kSparse, false, 1, {0.5, 0});
  same.Write(0, [](uint64_t i) { return Noise(1, i); });
  (void)Exchange(same, 0, 4);
  model.Write(0, [](uint64_t) { return 0.0f; });
  same.Write(0, [](uint64_t) { return 0.0f; });
  std::vector<float> expected = Exchange(same, 1, 4);
  for (float& value : expected) value *= 2;
  CHECK(Exchange(model, 1, 2) == expected);
}

TEST_CASE("NaN is sent on and leaves no trace in what is kept") {
  Model model(OneTensor(), kSparse, false, 1, {0.9, 1.0});
  model.Write(0, [](uint64_t i) {
    return i == 77 ? std::numeric_limits<float>::quiet_NaN() : Noise(1, i);
  });
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  std::vector<uint8_t> out(model.endpoint->EncodedSizeMax(0, 0));
  const EncodedChunk encoded = model.endpoint->EncodeChunk(0, 0, absl::MakeSpan(out));
  CHECK(encoded.nonfinite == 1);
  CHECK(encoded.nonfinite_tensor == "w");
  model.endpoint->Commit(0);
  model.Write(0, [](uint64_t i) { return Noise(2, i); });
  for (float value : Exchange(model, 1)) REQUIRE(std::isfinite(value));
}

TEST_CASE("where values are not left behind, or are no gradients, there is nothing to correct") {
  const std::string codec = GENERATE("int4:ef", "topk:k100:v4");
  Model model(OneTensor(), codec, false);
  Options options = model.endpoint->options();
  options.correction = {0.9, 0};
  const auto made = LocalEndpoint::Create(model.schema, model.layout, options, model.account);
  CHECK(absl::IsInvalidArgument(made.status()));
}

}  // namespace
}  // namespace causeway::endpoint
