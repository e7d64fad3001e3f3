// Kernel bodies that decode and sum: acc = fl(acc + fl(weight * decoded)) for each contribution in
// the order given, then the scaling, with the sum in registers. Chunks were checked by the host.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_COMBINE_H_
#define CAUSEWAY_COMPRESSION_DEVICE_COMBINE_H_

#include "compression/casts.h"
#include "compression/codes.h"
#include "compression/device/grid.h"

namespace causeway::compression::device {

struct CombineShared {
  float units[16];
};

// One bit: 1 or -1.
struct SignUnits {
  static constexpr int kBits = 1;
  static constexpr int kScaleBytes = 2;
  CAUSEWAY_HD float StoredScale(uint32_t stored) {
    return math::FromBf16(static_cast<uint16_t>(stored));
  }
  CAUSEWAY_HD float Unit(uint32_t code) { return code != 0u ? -1.0f : 1.0f; }
};

template <int kBits>
CAUSEWAY_DEVICE void LoadCodes(const uint8_t* codes, uint32_t at, uint32_t* q) {
  if constexpr (kBits == 8) {
    const uint64_t word = *reinterpret_cast<const uint64_t*>(codes + at);
    for (uint32_t k = 0; k < kThreadElements; ++k) q[k] = word >> (8 * k) & 255u;
  } else if constexpr (kBits == 4) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(codes + at / 2);
    for (uint32_t k = 0; k < kThreadElements; ++k) q[k] = word >> (4 * k) & 15u;
  } else {
    static_assert(kBits == 1);
    const uint32_t word = codes[at / 8];
    for (uint32_t k = 0; k < kThreadElements; ++k) q[k] = word >> k & 1u;
  }
}

// The thread's part of the sum as it stands before this batch.
CAUSEWAY_DEVICE void LoadSum(const CombineBatch& batch, const Place& place, float* sum) {
  if (batch.fresh) {
    for (uint32_t k = 0; k < kThreadElements; ++k) sum[k] = 0.0f;
  } else {
    LoadEight(batch.sum + place.first, place.at, place.n, sum);
  }
}

CAUSEWAY_DEVICE void StoreSum(const CombineBatch& batch, const Place& place, float* sum) {
  if (batch.scaled) {
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      sum[k] = math::Canonical(sum[k] * batch.scale);
    }
  }
  StoreEight(batch.sum + place.first, place.at, place.n, sum);
}

template <class Code, class Thread>
CAUSEWAY_DEVICE void CombineBlocks(const Thread& thread, const CombineBatch& batch,
                                   CombineShared& shared) {
  const Place place = PlaceOf(thread, batch);
  if constexpr (Code::kBits == 4) {
    if (thread.thread() < 16) shared.units[thread.thread()] = Code::Unit(thread.thread());
    thread.Sync();
  }
  if (place.at >= place.n) return;
  float sum[kThreadElements];
  LoadSum(batch, place, sum);
  for (uint32_t source = 0; source < batch.source_count; ++source) {
    const uint8_t* scales = batch.sources[source] +
                            static_cast<uint64_t>(place.chunk) * batch.stride + kChunkHeaderBytes;
    const uint8_t* stored = scales + place.at / batch.block * Code::kScaleBytes;
    uint32_t bits = stored[0];
    if constexpr (Code::kScaleBytes == 2) bits |= static_cast<uint32_t>(stored[1]) << 8;
    const float scale = Code::StoredScale(bits);
    uint32_t q[kThreadElements];
    LoadCodes<Code::kBits>(scales + place.planes.scale_bytes, place.at, q);
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      float unit;
      if constexpr (Code::kBits == 4) {
        unit = shared.units[q[k]];
      } else {
        unit = Code::Unit(q[k]);
      }
      const float decoded = unit * scale;
      sum[k] = math::Accumulate(sum[k], batch.weights[source], decoded);
    }
  }
  StoreSum(batch, place, sum);
}

struct CombineNoShared {};

template <class Cast, class Thread>
CAUSEWAY_DEVICE void CombineCast(const Thread& thread, const CombineBatch& batch,
                                 CombineNoShared&) {
  const Place place = PlaceOf(thread, batch);
  if (place.at >= place.n) return;
  float sum[kThreadElements];
  LoadSum(batch, place, sum);
  for (uint32_t source = 0; source < batch.source_count; ++source) {
    const uint8_t* codes = batch.sources[source] +
                           static_cast<uint64_t>(place.chunk) * batch.stride + kChunkHeaderBytes;
    typename Cast::Code code[kThreadElements];
    LoadEight(reinterpret_cast<const typename Cast::Code*>(codes), place.at, place.n, code);
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      sum[k] = math::Accumulate(sum[k], batch.weights[source], Cast::Value(code[k]));
    }
  }
  StoreSum(batch, place, sum);
}

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_COMBINE_H_
