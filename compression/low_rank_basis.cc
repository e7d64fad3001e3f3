// See low_rank_basis.h.
#include "compression/low_rank_basis.h"

#include <cassert>
#include <cmath>
#include <vector>

namespace causeway::compression {
namespace {

// A column shorter than this part of its former length lies in the span of those before it.
constexpr double kDependent = 1e-6;
constexpr uint32_t kLanes = 8;  // sums that need not wait for each other

double Dot(const double* a, const double* b, uint32_t n) {
  double lanes[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (uint32_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (uint32_t l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

void Subtract(double along, const double* from, uint32_t n, double* column) {
  for (uint32_t i = 0; i < n; ++i) column[i] -= along * from[i];
}

}  // namespace

void Orthonormalise(uint32_t rows, uint32_t rank, absl::Span<float> m) {
  assert(m.size() == size_t{rows} * rank);
  std::vector<double> columns(m.size());
  const auto column = [&](uint32_t k) { return columns.data() + size_t{k} * rows; };
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t k = 0; k < rank; ++k) column(k)[i] = m[size_t{i} * rank + k];
  }
  for (uint32_t k = 0; k < rank; ++k) {
    double* own = column(k);
    const double before = std::sqrt(Dot(own, own, rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t l = 0; l < k; ++l) Subtract(Dot(column(l), own, rows), column(l), rows, own);
    }
    const double length = std::sqrt(Dot(own, own, rows));
    const double factor = length > kDependent * before ? 1.0 / length : 0.0;
    for (uint32_t i = 0; i < rows; ++i) own[i] *= factor;
  }
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t k = 0; k < rank; ++k) m[size_t{i} * rank + k] = static_cast<float>(column(k)[i]);
  }
}

}  // namespace causeway::compression
