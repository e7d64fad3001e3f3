// See low_rank.h. The projections sum in double: they decide only which basis is sent, and a basis
// that is orthonormal to fp32's precision loses nothing more.
#include "compression/low_rank.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/block_math.h"
#include "compression/codec.h"
#include "compression/vector.h"

namespace causeway::compression {
namespace {

// A column shorter than this part of its former length lies in the span of those before it.
constexpr double kDependent = 1e-6;
constexpr uint32_t kHugeBits = 0x76800000u;  // 2^110: a column's norm is then below 2^120
constexpr uint16_t kLeftMax = 0x3f80u;       // bf16 1: no entry of a unit vector is larger
constexpr uint16_t kRightMax = 0x7b80u;      // bf16 2^120: 64 products of it and 1 sum to 2^126

// out (rows x rank) = values * right (columns x rank)
void Project(const LowRankShape& s, const float* values, const float* right,
             std::vector<double>* out) {
  out->assign(size_t{s.rows} * s.rank, 0.0);
  for (uint32_t i = 0; i < s.rows; ++i) {
    double* sums = out->data() + size_t{i} * s.rank;
    const float* row = values + size_t{i} * s.columns;
    for (uint32_t j = 0; j < s.columns; ++j) {
      const float* q = right + size_t{j} * s.rank;
      for (uint32_t k = 0; k < s.rank; ++k) {
        sums[k] += static_cast<double>(row[j]) * static_cast<double>(q[k]);
      }
    }
  }
}

// out (columns x rank) = values^T * left (rows x rank)
void ProjectBack(const LowRankShape& s, const float* values, const float* left,
                 std::vector<double>* out) {
  out->assign(s.warm_elements(), 0.0);
  for (uint32_t i = 0; i < s.rows; ++i) {
    const float* p = left + size_t{i} * s.rank;
    const float* row = values + size_t{i} * s.columns;
    for (uint32_t j = 0; j < s.columns; ++j) {
      double* sums = out->data() + size_t{j} * s.rank;
      for (uint32_t k = 0; k < s.rank; ++k) {
        sums[k] += static_cast<double>(row[j]) * static_cast<double>(p[k]);
      }
    }
  }
}

// Modified Gram-Schmidt over the columns, twice, which keeps them orthogonal where they nearly
// coincide. Dependent columns become zero.
void Orthonormalise(uint32_t rows, uint32_t rank, std::vector<double>* m) {
  const auto dot = [&](uint32_t a, uint32_t b) {
    double sum = 0;
    for (uint32_t i = 0; i < rows; ++i)
      sum += (*m)[size_t{i} * rank + a] * (*m)[size_t{i} * rank + b];
    return sum;
  };
  for (uint32_t k = 0; k < rank; ++k) {
    const double before = std::sqrt(dot(k, k));
    for (int pass = 0; pass < 2; ++pass) {
      for (uint32_t l = 0; l < k; ++l) {
        const double along = dot(l, k);
        for (uint32_t i = 0; i < rows; ++i) {
          (*m)[size_t{i} * rank + k] -= along * (*m)[size_t{i} * rank + l];
        }
      }
    }
    const double length = std::sqrt(dot(k, k));
    const double factor = length > kDependent * before ? 1.0 / length : 0.0;
    for (uint32_t i = 0; i < rows; ++i) (*m)[size_t{i} * rank + k] *= factor;
  }
}

// To bf16 and back: what the receivers have.
void Round(const std::vector<double>& from, uint16_t* stored, std::vector<float>* to) {
  to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    stored[i] = math::ToBf16Saturated(static_cast<float>(from[i]));
    (*to)[i] = math::FromBf16(stored[i]);
  }
}

float Decoded(const float* p, const float* q, uint32_t rank) {
  float sum = 0.0f;
  for (uint32_t k = 0; k < rank; ++k) {
    const float product = p[k] * q[k];
    sum = sum + product;
  }
  return sum;
}

}  // namespace

absl::Status ValidateLowRank(const LowRankShape& s) {
  if (s.rows == 0 || s.columns == 0 || s.rows > kLowRankSideMax || s.columns > kLowRankSideMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "low rank: a matrix of ", s.rows, " x ", s.columns, "; sides are 1 to ", kLowRankSideMax));
  }
  const uint32_t most = std::min({s.rows, s.columns, kLowRankMax});
  if (s.rank == 0 || s.rank > most) {
    return absl::InvalidArgumentError(absl::StrCat("low rank: rank ", s.rank, " of a matrix of ",
                                                   s.rows, " x ", s.columns, "; 1 to ", most));
  }
  return absl::OkStatus();
}

void LowRankStart(const LowRankShape& shape, absl::Span<float> warm) {
  assert(warm.size() == shape.warm_elements());
  for (size_t i = 0; i < shape.warm_elements(); ++i) {
    const uint32_t noise = math::Dither(0x10c4a4c5u, static_cast<uint32_t>(i)) >> 8;
    warm[i] = static_cast<float>(static_cast<int32_t>(noise) - (1 << 23)) * 0x1p-23f;
  }
}

bool LowRankEncode(const LowRankShape& shape, absl::Span<const float> values,
                   absl::Span<float> warm, absl::Span<uint16_t> factors,
                   absl::Span<float> residual) {
  assert(ValidateLowRank(shape).ok() && values.size() == shape.elements());
  assert(warm.size() == shape.warm_elements() && factors.size() == shape.factor_elements());
  assert(residual.empty() || residual.size() == values.size());
  for (float value : values) {
    if (math::AbsBits(value) < kHugeBits) continue;
    std::fill(factors.begin(), factors.end(), math::kCanonicalNanBf16);
    std::fill(residual.begin(), residual.end(), 0.0f);
    return false;
  }
  std::vector<double> exact;
  std::vector<float> p;
  std::vector<float> q;
  Project(shape, values.data(), warm.data(), &exact);
  Orthonormalise(shape.rows, shape.rank, &exact);
  Round(exact, factors.data(), &p);
  ProjectBack(shape, values.data(), p.data(), &exact);
  Round(exact, factors.data() + p.size(), &q);
  // A column of zeros would stay one for ever: what has died out starts again from its former self.
  for (uint32_t k = 0; k < shape.rank; ++k) {
    bool lives = false;
    for (size_t i = k; i < q.size(); i += shape.rank) lives = lives || q[i] != 0.0f;
    for (size_t i = k; lives && i < q.size(); i += shape.rank) warm[i] = q[i];
  }
  for (size_t i = 0; i < residual.size(); ++i) {
    const size_t row = i / shape.columns;
    const size_t column = i % shape.columns;
    residual[i] = values[i] -
                  Decoded(p.data() + row * shape.rank, q.data() + column * shape.rank, shape.rank);
  }
  return true;
}

absl::Status CheckLowRank(const LowRankShape& shape, absl::Span<const uint16_t> factors,
                          bool* nonfinite) {
  absl::Status valid = ValidateLowRank(shape);
  if (!valid.ok()) return valid;
  if (factors.size() != shape.factor_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("low rank: ", factors.size(), " factors where ",
                                                   shape.factor_elements(), " belong"));
  }
  size_t nans = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    const uint16_t most = i < size_t{shape.rows} * shape.rank ? kLeftMax : kRightMax;
    if ((factors[i] & 0x7fffu) <= most) continue;
    if (factors[i] != math::kCanonicalNanBf16) {
      return absl::InvalidArgumentError(
          absl::StrCat("low rank: factor ", i, " is none that an encoder makes"));
    }
    ++nans;
  }
  if (nans != 0 && nans != factors.size()) {
    return absl::InvalidArgumentError("low rank: some factors are NaN, and some are not");
  }
  *nonfinite = nans != 0;
  return absl::OkStatus();
}

void LowRankAccumulate(const LowRankShape& shape, absl::Span<const uint16_t> factors, float weight,
                       absl::Span<float> acc) {
  assert(factors.size() == shape.factor_elements() && acc.size() == shape.elements());
  std::vector<float> values(factors.size());
  CastToFp32(factors.data(), factors.size(), DType::kBf16, values.data());
  const float* q = values.data() + size_t{shape.rows} * shape.rank;
  for (uint32_t i = 0; i < shape.rows; ++i) {
    const float* p = values.data() + size_t{i} * shape.rank;
    float* row = acc.data() + size_t{i} * shape.columns;
    for (uint32_t j = 0; j < shape.columns; ++j) {
      row[j] = math::Accumulate(row[j], weight, Decoded(p, q + size_t{j} * shape.rank, shape.rank));
    }
  }
}

}  // namespace causeway::compression
