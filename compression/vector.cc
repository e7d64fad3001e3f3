// Forwards to the kernels of this CPU.
#include "compression/vector.h"

#include <cassert>
#include <cstring>

#include "compression/block_math.h"
#include "compression/kernels/kernels.h"

namespace causeway::compression {

void ScaleVector(absl::Span<float> x, float factor) {
  ActiveKernels().scale(x.data(), x.size(), factor);
}

void UpdateAverage(absl::Span<float> theta, absl::Span<const float> d) {
  assert(theta.size() == d.size());
  ActiveKernels().subtract(theta.data(), d.data(), theta.size());
}

void UpdateNesterov(absl::Span<float> theta, absl::Span<float> momentum, absl::Span<const float> d,
                    float eta, float mu) {
  assert(theta.size() == d.size() && theta.size() == momentum.size());
  ActiveKernels().nesterov(theta.data(), momentum.data(), d.data(), theta.size(), eta, mu);
}

size_t FirstNonFinite(absl::Span<const float> x) {
  constexpr size_t kStep = 4096;
  for (size_t begin = 0; begin < x.size(); begin += kStep) {
    size_t end = begin + kStep < x.size() ? begin + kStep : x.size();
    const uint8_t* words = reinterpret_cast<const uint8_t*>(x.data() + begin);
    if (ActiveKernels().largest_magnitude_32(words, end - begin) < math::kInfBits) continue;
    for (size_t i = begin; i < end; ++i) {
      if (math::AbsBits(x[i]) >= math::kInfBits) return i;
    }
  }
  return x.size();
}

void CastFromFp32(const float* in, size_t n, DType dtype, void* out) {
  assert(dtype == DType::kFp32 || dtype == DType::kBf16 || dtype == DType::kFp16);
  if (n == 0) return;
  if (dtype == DType::kFp32) {
    std::memcpy(out, in, n * sizeof(float));
  } else if (dtype == DType::kBf16) {
    ActiveKernels().to_bf16(in, n, static_cast<uint16_t*>(out));
  } else {
    ActiveKernels().to_fp16(in, n, static_cast<uint16_t*>(out));
  }
}

void CastToFp32(const void* in, size_t n, DType dtype, float* out) {
  assert(dtype == DType::kFp32 || dtype == DType::kBf16 || dtype == DType::kFp16);
  if (n == 0) return;
  if (dtype == DType::kFp32) {
    std::memcpy(out, in, n * sizeof(float));
  } else if (dtype == DType::kBf16) {
    ActiveKernels().from_bf16(static_cast<const uint16_t*>(in), n, out);
  } else {
    ActiveKernels().from_fp16(static_cast<const uint16_t*>(in), n, out);
  }
}

uint32_t Crc32c(uint32_t crc, absl::Span<const uint8_t> bytes) {
  return ActiveKernels().crc32c(crc, bytes.data(), bytes.size());
}

uint64_t ContentHash(absl::Span<const uint8_t> bytes) {
  return ActiveKernels().content_hash(bytes.data(), bytes.size());
}

uint64_t ContentHash(absl::Span<const float> values) {
  return ActiveKernels().content_hash(reinterpret_cast<const uint8_t*>(values.data()),
                                      values.size() * sizeof(float));
}

const char* ActiveIsaName() { return ActiveKernels().name; }

bool SubnormalsAreKept() {
  volatile float tiny = math::FromBits(0x00800000u);  // the smallest normal number
  volatile float half = tiny * 0.5f;                  // flushed to zero, or not
  volatile float doubled = half * 2.0f;               // read as zero, or not
  return doubled == tiny;
}

}  // namespace causeway::compression
