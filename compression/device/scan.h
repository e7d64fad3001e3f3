// Kernel body that looks for Inf and NaN in a tensor of any float type: what a submission is
// screened with before anything of it leaves.
#ifndef CAUSEWAY_COMPRESSION_DEVICE_SCAN_H_
#define CAUSEWAY_COMPRESSION_DEVICE_SCAN_H_

#include "compression/device/grid.h"

namespace causeway::compression::device {

template <typename Word>
CAUSEWAY_DEVICE uint32_t FirstAtLeast(const void* data, uint64_t first, uint32_t at, uint32_t n,
                                      Word limit) {
  constexpr Word kMagnitude = static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1)));
  Word words[kThreadElements];
  LoadEight(static_cast<const Word*>(data) + first, at, n, words);
  uint32_t found = kThreadElements;
  for (uint32_t k = kThreadElements; k-- > 0;) {
    if (static_cast<Word>(words[k] & kMagnitude) >= limit) found = k;
  }
  return found;
}

template <class Thread>
CAUSEWAY_DEVICE void Scan(const Thread& thread, const ScanBatch& batch) {
  const uint64_t first = static_cast<uint64_t>(thread.chunk()) * kChunkElements;
  const uint64_t left = batch.elements - first;
  const uint32_t n = left < kChunkElements ? static_cast<uint32_t>(left) : kChunkElements;
  const uint32_t at = (thread.tile() * thread.threads() + thread.thread()) * kThreadElements;
  uint32_t found;
  if (batch.dtype == DType::kFp32) {
    found = FirstAtLeast<uint32_t>(batch.data, first, at, n, math::kInfBits);
  } else {
    const uint16_t limit = batch.dtype == DType::kBf16 ? 0x7f80u : 0x7c00u;
    found = FirstAtLeast<uint16_t>(batch.data, first, at, n, limit);
  }
  if (found < kThreadElements) thread.Max(batch.first_to_end + thread.chunk(), n - (at + found));
}

}  // namespace causeway::compression::device

#endif  // CAUSEWAY_COMPRESSION_DEVICE_SCAN_H_
