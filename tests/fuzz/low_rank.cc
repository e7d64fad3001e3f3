// Low-rank factors from a peer: whatever passes the check sums inside its matrix, to finite values
// unless the factors say otherwise. Input: u8 rows, u8 columns, u8 rank, then factors.
#include "compression/low_rank.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace causeway::compression;
  if (size < 3) return 0;
  const LowRankShape shape{data[0], data[1], data[2]};
  std::vector<uint16_t> factors((size - 3) / 2);
  if (!factors.empty()) std::memcpy(factors.data(), data + 3, factors.size() * 2);
  bool nonfinite = false;
  if (!CheckLowRank(shape, factors, &nonfinite).ok()) return 0;
  std::unique_ptr<float[]> sum(new float[shape.elements()]());  // exactly: a write beyond is seen
  LowRankAccumulate(shape, factors, 1.0f, absl::MakeSpan(sum.get(), shape.elements()));
  for (size_t i = 0; i < shape.elements(); ++i) {
    if (std::isfinite(sum[i]) == nonfinite) std::abort();
  }
  return 0;
}
