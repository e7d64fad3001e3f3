// SparseLoCo's error feedback over many rounds, against its equations in double precision:
//   e <- beta e + D;   sent = Q(TopK(e));   e <- e - sent;   theta <- theta - alpha sent
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/endpoint/model.h"

namespace causeway::endpoint {
namespace {

using testing::Model;
using testing::Noise;
using testing::Record;

constexpr uint32_t kElements = 4096;  // one block of btopk
constexpr uint32_t kKept = 128;
constexpr double kBeta = 0.95;
constexpr float kAlpha = 0.8f;

TEST_CASE("what SparseLoCo sends are the largest of the decayed residual and the new work") {
  Model model({Record("w", {kElements})}, "btopk:k128:v4:ef:decay950");
  std::vector<float> theta(kElements);
  for (uint64_t i = 0; i < kElements; ++i) theta[i] = Noise(1, i);
  std::vector<double> e(kElements, 0.0);
  for (int round = 0; round < 30; ++round) {
    INFO("round " << round);
    const auto work = [round](uint64_t i) {
      return 0.01f * Noise(10 + static_cast<uint64_t>(round), i) + (i % 53 == 0 ? 0.002f : 0.0f);
    };
    model.Publish(0, round, [&](uint64_t i) { return theta[i]; });
    model.Write(0, [&](uint64_t i) { return theta[i] - work(i); });
    REQUIRE(model.endpoint->Begin(0, round, 1, 1).ok());
    const std::vector<float> sent = model.Decode(0, model.EncodeAll(0));
    model.endpoint->Commit(0);

    double largest = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      e[i] = kBeta * e[i] + (double{theta[i]} - double{theta[i] - work(i)});
      largest = std::max(largest, std::fabs(e[i]));
    }
    double least_sent = std::numeric_limits<double>::infinity();
    double largest_kept = 0;
    uint32_t count = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      if (sent[i] == 0.0f) {
        largest_kept = std::max(largest_kept, std::fabs(e[i]));
        continue;
      }
      ++count;
      // Half a step of four bits, and what bf16 lost in e meanwhile.
      REQUIRE(std::fabs(sent[i] - e[i]) <= largest * (0.5 / 7 * 1.01 + 0.02));
      least_sent = std::min(least_sent, std::fabs(e[i]));
      e[i] -= double{sent[i]};
      theta[i] -= kAlpha * sent[i];
    }
    REQUIRE(count > 0);
    REQUIRE(count <= kKept);
    REQUIRE(least_sent >= largest_kept - 0.03 * largest);
  }
}

}  // namespace
}  // namespace causeway::endpoint
