// Increasing index sets in bytes: Rice-coded gaps with a parameter for every 65,536 indices, a
// bitmap, or 12-bit numbers. FORMAT.md has the bits.
//
// Pure functions. Reading believes nothing: it ends with an error at the first index that is out of
// range or out of order, and never reads beyond the bytes it was given.
#ifndef CAUSEWAY_COMPRESSION_INDEX_SET_H_
#define CAUSEWAY_COMPRESSION_INDEX_SET_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace causeway::compression {

enum class IndexMode : uint8_t { kRice = 0, kBitmap = 1, kTwelveBits = 2 };

inline constexpr uint32_t kRiceSegment = 65536;

// Appends the smaller of Rice and bitmap for indices below `limit`; returns which. `indices`
// increases.
IndexMode WriteIndices(absl::Span<const uint32_t> indices, uint32_t limit,
                       std::vector<uint8_t>* out);
// Two indices below 4096 in three bytes; an even number of them.
void WriteTwelveBits(absl::Span<const uint32_t> indices, uint8_t* out);

// Fills `indices` (whose size is the number expected) from exactly all of `bytes`. False if they
// are not exactly that many increasing indices below `limit`, or not exactly what the writer writes
// in this mode.
bool ReadIndices(IndexMode mode, absl::Span<const uint8_t> bytes, uint32_t limit,
                 absl::Span<uint32_t> indices);

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_INDEX_SET_H_
