// Kernel bodies that encode: base, snapshot and residual to packed planes and the new residual, in
// one pass over each. The arithmetic is that of the CPU's units (codes.h, casts.h); only who does
// which element differs, and the order of sums is the format's. A tile holds whole blocks, so that
// values stay in registers between the search for the largest and the encoding.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_ENCODE_H_
#define CAUSEWAY_COMPRESSION_DEVICE_ENCODE_H_

#include "compression/casts.h"
#include "compression/codes.h"
#include "compression/device/grid.h"

namespace causeway::compression::device {

struct EncodeShared {
  uint32_t across[kTileThreadsMax / kWarpThreads];
  float units[16];
};

CAUSEWAY_DEVICE float BaseAsHeld(const EncodeBatch& batch, float base) {
  if (!batch.cast_base) return base;
  if (batch.snapshot_dtype == DType::kBf16) return math::FromBf16(math::ToBf16(base));
  if (batch.snapshot_dtype == DType::kFp16) return math::FromFp16(math::ToFp16(base));
  return base;
}

// The thread's values as they are encoded, zeros behind the end; returns their largest magnitude as
// bits.
CAUSEWAY_DEVICE uint32_t Gather(const EncodeBatch& batch, const Place& place, float* v) {
  const uint64_t first = place.first;
  if (batch.snapshot_dtype == DType::kFp32) {
    LoadEight(static_cast<const float*>(batch.snapshot) + first, place.at, place.n, v);
  } else {
    uint16_t half[kThreadElements];
    LoadEight(static_cast<const uint16_t*>(batch.snapshot) + first, place.at, place.n, half);
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      v[k] =
          batch.snapshot_dtype == DType::kBf16 ? math::FromBf16(half[k]) : math::FromFp16(half[k]);
    }
  }
  if (batch.base != nullptr) {
    float base[kThreadElements];
    LoadEight(batch.base + first, place.at, place.n, base);
    for (uint32_t k = 0; k < kThreadElements; ++k) v[k] = BaseAsHeld(batch, base[k]) - v[k];
  }
  if (batch.residual_in != nullptr) {
    float residual[kThreadElements];
    if (batch.residual_dtype == DType::kFp32) {
      LoadEight(static_cast<const float*>(batch.residual_in) + first, place.at, place.n, residual);
    } else {
      uint16_t half[kThreadElements];
      LoadEight(static_cast<const uint16_t*>(batch.residual_in) + first, place.at, place.n, half);
      for (uint32_t k = 0; k < kThreadElements; ++k) residual[k] = math::FromBf16(half[k]);
    }
    for (uint32_t k = 0; k < kThreadElements; ++k) {
      const float carried = batch.decay * residual[k];
      v[k] = v[k] + carried;
    }
  }
  uint32_t largest = 0;
  for (uint32_t k = 0; k < kThreadElements; ++k) {
    if (place.at + k >= place.n) v[k] = 0.0f;  // zeros complete the last block, residual or not
    const uint32_t bits = math::AbsBits(v[k]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

CAUSEWAY_DEVICE void StoreResidual(const EncodeBatch& batch, const Place& place,
                                   const float* lost) {
  if (batch.residual_dtype == DType::kFp32) {
    StoreEight(static_cast<float*>(batch.residual_out) + place.first, place.at, place.n, lost);
    return;
  }
  uint16_t half[kThreadElements];
  for (uint32_t k = 0; k < kThreadElements; ++k) half[k] = math::ToBf16(lost[k]);
  StoreEight(static_cast<uint16_t*>(batch.residual_out) + place.first, place.at, place.n, half);
}

CAUSEWAY_DEVICE uint8_t* ChunkOf(const EncodeBatch& batch, const Place& place) {
  return batch.chunks + static_cast<uint64_t>(place.chunk) * batch.stride;
}

// Rare: only where a thread's own largest says so.
template <class Thread>
CAUSEWAY_DEVICE void CountNonFinite(const Thread& thread, const EncodeBatch& batch,
                                    const Place& place, const float* v) {
  uint32_t count = 0;
  uint32_t first = 0;
  for (uint32_t k = kThreadElements; k-- > 0;) {
    if (place.at + k >= place.n || math::AbsBits(v[k]) < batch.nonfinite_bits) continue;
    ++count;
    first = place.at + k;
  }
  if (count == 0) return;
  auto* counts = reinterpret_cast<ChunkCounts*>(ChunkOf(batch, place));
  thread.Add(&counts->nonfinite, count);
  thread.Max(&counts->first_to_end, kChunkElements - first);
}

// The zeros between what is used of each plane and its end: the first tile's work.
template <class Thread>
CAUSEWAY_DEVICE void ClearPadding(const Thread& thread, uint8_t* scales, const Planes& planes) {
  if (thread.tile() != 0) return;
  uint8_t* codes = scales + planes.scale_bytes;
  for (uint32_t i = thread.thread(); i < kPlaneAlignment; i += thread.threads()) {
    if (planes.scale_used + i < planes.scale_bytes) scales[planes.scale_used + i] = 0;
    if (planes.code_used + i < planes.code_bytes) codes[planes.code_used + i] = 0;
  }
}

template <int kBits>
CAUSEWAY_DEVICE void StoreCodes(uint8_t* codes, uint32_t at, const uint32_t* q) {
  if constexpr (kBits == 8) {
    uint64_t word = 0;
    for (uint32_t k = 0; k < kThreadElements; ++k) word |= static_cast<uint64_t>(q[k]) << (8 * k);
    *reinterpret_cast<uint64_t*>(codes + at) = word;
  } else if constexpr (kBits == 4) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < kThreadElements; ++k) word |= q[k] << (4 * k);
    *reinterpret_cast<uint32_t*>(codes + at / 2) = word;
  } else {
    static_assert(kBits == 1);
    uint32_t word = 0;
    for (uint32_t k = 0; k < kThreadElements; ++k) word |= q[k] << k;
    codes[at / 8] = static_cast<uint8_t>(word);
  }
}

template <class Code>
constexpr bool kRoundsStochastically = requires {
  Code::CodeStochastic(0.0f, 0u, 0u);
};

// Codecs that scale a block by its largest magnitude.
template <class Code, class Thread>
CAUSEWAY_DEVICE void EncodeBlocks(const Thread& thread, const EncodeBatch& batch,
                                  EncodeShared& shared) {
  const Place place = PlaceOf(thread, batch);
  uint8_t* scales = ChunkOf(batch, place) + kChunkHeaderBytes;
  uint8_t* codes = scales + place.planes.scale_bytes;
  ClearPadding(thread, scales, place.planes);
  if constexpr (Code::kBits == 4) {
    // A table where every thread finds its own entry without waiting for the others'.
    if (thread.thread() < 16) shared.units[thread.thread()] = Code::Unit(thread.thread());
    thread.Sync();
  }

  float v[kThreadElements];
  const uint32_t own = Gather(batch, place, v);
  if (own >= batch.nonfinite_bits) CountNonFinite(thread, batch, place, v);
  const uint32_t largest = BlockMax(thread, batch.block, own, shared.across);
  const math::BlockScale s = Code::Scale(largest);
  if (place.at >= place.whole) return;  // behind the last block; nobody waits from here on

  if (place.at % batch.block == 0) {
    const uint32_t at = place.at / batch.block * Code::kScaleBytes;
    scales[at] = static_cast<uint8_t>(s.stored);
    if constexpr (Code::kScaleBytes == 2) scales[at + 1] = static_cast<uint8_t>(s.stored >> 8);
  }
  uint32_t q[kThreadElements];
  float lost[kThreadElements];
  const bool finite = largest < math::kHugeBits;
  for (uint32_t k = 0; k < kThreadElements; ++k) {
    const float y = v[k] * s.inverse;
    uint32_t code = Code::Code(y);
    if constexpr (kRoundsStochastically<Code>) {
      if (batch.stochastic) {
        code = Code::CodeStochastic(y, batch.seeds[place.chunk], place.at + k);
      }
    }
    q[k] = finite ? code : 0u;
    float unit;
    if constexpr (Code::kBits == 4) {
      unit = shared.units[q[k]];
    } else {
      unit = Code::Unit(q[k]);
    }
    const float decoded = unit * s.scale;
    lost[k] = finite ? v[k] - decoded : 0.0f;
  }
  StoreCodes<Code::kBits>(codes, place.at, q);
  if (batch.residual_out != nullptr) StoreResidual(batch, place, lost);
}

struct SignShared {
  uint32_t across[kTileThreadsMax / kWarpThreads];
  float magnitudes[kTileElementsMax];
  uint16_t means[kTileElementsMax / kBlockMin];
};

// The mean magnitude of each of the tile's blocks, summed in the format's 32 lanes.
template <class Thread>
CAUSEWAY_DEVICE void MeasureBlocks(const Thread& thread, const EncodeBatch& batch,
                                   const Place& place, SignShared& shared) {
  const uint32_t tile_elements = thread.threads() * kThreadElements;
  const uint32_t tile_first = thread.tile() * tile_elements;
  const uint32_t lane = thread.thread() % kWarpThreads;
  const uint32_t warps = thread.threads() / kWarpThreads;
  for (uint32_t b = thread.thread() / kWarpThreads; b < tile_elements / batch.block; b += warps) {
    const float* magnitudes = shared.magnitudes + b * batch.block;
    float sum = 0.0f;
    for (uint32_t i = lane; i < batch.block; i += kWarpThreads) sum = sum + magnitudes[i];
    for (uint32_t mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      sum = sum + math::FromBits(thread.Exchange(math::Bits(sum), mask));
    }
    const uint32_t first = tile_first + b * batch.block;
    if (lane != 0 || first >= place.n) continue;
    const uint32_t left = place.n - first;
    const uint32_t present = left < batch.block ? left : batch.block;
    shared.means[b] = math::ToBf16(sum / static_cast<float>(present));
  }
}

// One bit: the sign; the scale is the mean magnitude.
template <class Thread>
CAUSEWAY_DEVICE void EncodeSign(const Thread& thread, const EncodeBatch& batch,
                                SignShared& shared) {
  const Place place = PlaceOf(thread, batch);
  uint8_t* scales = ChunkOf(batch, place) + kChunkHeaderBytes;
  uint8_t* codes = scales + place.planes.scale_bytes;
  ClearPadding(thread, scales, place.planes);

  float v[kThreadElements];
  const uint32_t own = Gather(batch, place, v);
  if (own >= batch.nonfinite_bits) CountNonFinite(thread, batch, place, v);
  const uint32_t in_tile = thread.thread() * kThreadElements;
  for (uint32_t k = 0; k < kThreadElements; ++k) {
    shared.magnitudes[in_tile + k] = math::FromBits(math::AbsBits(v[k]));
  }
  const uint32_t largest = BlockMax(thread, batch.block, own, shared.across);
  thread.Sync();
  MeasureBlocks(thread, batch, place, shared);
  thread.Sync();
  if (place.at >= place.whole) return;

  const bool finite = largest < math::kMeanHugeBits;
  const bool zero = largest < math::kTinyBits;
  uint16_t stored = shared.means[in_tile / batch.block];
  stored = zero ? uint16_t{0} : stored;
  stored = finite ? stored : math::kCanonicalNanBf16;
  if (place.at % batch.block == 0) {
    const uint32_t at = place.at / batch.block * 2;
    scales[at] = static_cast<uint8_t>(stored);
    scales[at + 1] = static_cast<uint8_t>(stored >> 8);
  }
  const float scale = math::FromBf16(stored);
  uint32_t q[kThreadElements];
  float lost[kThreadElements];
  for (uint32_t k = 0; k < kThreadElements; ++k) {
    q[k] = finite && !zero ? math::Bits(v[k]) >> 31 : 0u;
    const float decoded = math::FromBits(math::Bits(scale) ^ q[k] << 31);
    lost[k] = zero ? v[k] : v[k] - decoded;
    lost[k] = finite ? lost[k] : 0.0f;
  }
  StoreCodes<1>(codes, place.at, q);
  if (batch.residual_out != nullptr) StoreResidual(batch, place, lost);
}

struct NoShared {};

// fp32, bf16, fp16.
template <class Cast, class Thread>
CAUSEWAY_DEVICE void EncodeCast(const Thread& thread, const EncodeBatch& batch, NoShared&) {
  const Place place = PlaceOf(thread, batch);
  uint8_t* codes = ChunkOf(batch, place) + kChunkHeaderBytes;
  ClearPadding(thread, codes, place.planes);
  float v[kThreadElements];
  const uint32_t own = Gather(batch, place, v);
  if (own >= batch.nonfinite_bits) CountNonFinite(thread, batch, place, v);
  typename Cast::Code code[kThreadElements];
  float lost[kThreadElements];
  for (uint32_t k = 0; k < kThreadElements; ++k) {
    code[k] = Cast::From(v[k]);
    lost[k] =
        math::AbsBits(v[k]) < math::kInfBits && !Cast::kExact ? v[k] - Cast::Value(code[k]) : 0.0f;
  }
  StoreEight(reinterpret_cast<typename Cast::Code*>(codes), place.at, place.n, code);
  if (batch.residual_out != nullptr) StoreResidual(batch, place, lost);
}

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_ENCODE_H_
