// Index sets.
#include "compression/index_set.h"

#include <algorithm>
#include <cassert>

namespace causeway::compression {
namespace {

constexpr uint32_t kRiceParameterMax = 16;
constexpr size_t kRiceSegmentHeader = 4;  // u8 parameter, u24 count

class BitWriter {
 public:
  explicit BitWriter(std::vector<uint8_t>* out) : out_(out) {}
  void Put(uint64_t value, uint32_t bits) {  // bits <= 32
    pending_ |= value << filled_;
    filled_ += bits;
    for (; filled_ >= 8; filled_ -= 8, pending_ >>= 8)
      out_->push_back(static_cast<uint8_t>(pending_));
  }
  void PutUnary(uint32_t zeros) {
    for (; zeros >= 32; zeros -= 32) Put(0, 32);
    Put(uint64_t{1} << zeros, zeros + 1);
  }
  void Align() {
    if (filled_ > 0) Put(0, 8 - filled_);
  }

 private:
  std::vector<uint8_t>* out_;
  uint64_t pending_ = 0;
  uint32_t filled_ = 0;
};

// Bits in the order in which BitWriter put them. Reads zeros beyond the end and remembers that it
// did.
class BitReader {
 public:
  explicit BitReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  uint32_t Get(uint32_t bits) {
    while (filled_ < bits) Refill();
    uint32_t value = static_cast<uint32_t>(pending_ & ((uint64_t{1} << bits) - 1));
    pending_ >>= bits;
    filled_ -= bits;
    return value;
  }
  // Number of zeros before the next one; gives up beyond `most`.
  uint32_t GetUnary(uint32_t most) {
    uint32_t zeros = 0;
    while (zeros <= most && !overrun_ && Get(1) == 0) ++zeros;
    return zeros;
  }
  bool overrun() const { return overrun_; }
  // Bytes touched; the bits left in the last of them must be zero.
  size_t consumed() const { return at_; }
  bool RestIsZero() const { return pending_ == 0; }

 private:
  void Refill() {
    if (at_ == bytes_.size()) {
      overrun_ = true;
      filled_ += 8;
      return;
    }
    pending_ |= static_cast<uint64_t>(bytes_[at_++]) << filled_;
    filled_ += 8;
  }

  absl::Span<const uint8_t> bytes_;
  size_t at_ = 0;
  uint64_t pending_ = 0;
  uint32_t filled_ = 0;
  bool overrun_ = false;
};

size_t RiceBits(absl::Span<const uint32_t> gaps, uint32_t parameter) {
  size_t bits = gaps.size() * (parameter + 1);
  for (uint32_t gap : gaps) bits += gap >> parameter;
  return bits;
}

uint32_t BestParameter(absl::Span<const uint32_t> gaps) {
  uint32_t best = 0;
  for (uint32_t parameter = 1; parameter <= kRiceParameterMax; ++parameter) {
    if (RiceBits(gaps, parameter) < RiceBits(gaps, best)) best = parameter;
  }
  return best;
}

void WriteRice(absl::Span<const uint32_t> indices, uint32_t limit, std::vector<uint8_t>* out) {
  size_t at = 0;
  std::vector<uint32_t> gaps;
  for (uint64_t begin = 0; begin < limit; begin += kRiceSegment) {
    gaps.clear();
    uint32_t next = static_cast<uint32_t>(begin);  // the smallest index that could come
    for (; at < indices.size() && indices[at] < begin + kRiceSegment; ++at) {
      gaps.push_back(indices[at] - next);
      next = indices[at] + 1;
    }
    const uint32_t parameter = BestParameter(gaps);
    out->push_back(static_cast<uint8_t>(parameter));
    for (int shift = 0; shift < 24; shift += 8) {
      out->push_back(static_cast<uint8_t>(gaps.size() >> shift));
    }
    BitWriter writer(out);
    for (uint32_t gap : gaps) {
      writer.PutUnary(gap >> parameter);
      writer.Put(gap & ((1u << parameter) - 1), parameter);
    }
    writer.Align();
  }
}

// One segment of Rice-coded gaps; returns the bytes it took, 0 on any error.
size_t ReadRiceSegment(absl::Span<const uint8_t> bytes, uint32_t begin, uint32_t end,
                       absl::Span<uint32_t> indices, size_t* filled) {
  if (bytes.size() < kRiceSegmentHeader) return 0;
  const uint32_t parameter = bytes[0];
  const uint32_t count =
      bytes[1] | static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]) << 16;
  if (parameter > kRiceParameterMax || count > end - begin || count > indices.size() - *filled)
    return 0;
  BitReader reader(bytes.subspan(kRiceSegmentHeader));
  uint64_t next = begin;
  for (uint32_t k = 0; k < count; ++k) {
    const uint64_t high = reader.GetUnary((end - begin) >> parameter);
    const uint64_t index = next + (high << parameter) + reader.Get(parameter);
    if (reader.overrun() || index >= end) return 0;
    indices[(*filled)++] = static_cast<uint32_t>(index);
    next = index + 1;
  }
  return reader.RestIsZero() ? kRiceSegmentHeader + reader.consumed() : 0;
}

bool ReadRice(absl::Span<const uint8_t> bytes, uint32_t limit, absl::Span<uint32_t> indices) {
  size_t filled = 0;
  for (uint64_t begin = 0; begin < limit; begin += kRiceSegment) {
    const uint32_t end = static_cast<uint32_t>(std::min<uint64_t>(limit, begin + kRiceSegment));
    const size_t used = ReadRiceSegment(bytes, static_cast<uint32_t>(begin), end, indices, &filled);
    if (used == 0) return false;
    bytes.remove_prefix(used);
  }
  return filled == indices.size() && bytes.empty();
}

bool ReadBitmap(absl::Span<const uint8_t> bytes, uint32_t limit, absl::Span<uint32_t> indices) {
  if (bytes.size() != (limit + 7) / 8) return false;
  size_t filled = 0;
  for (uint32_t index = 0; index < bytes.size() * 8; ++index) {
    if ((bytes[index / 8] >> (index % 8) & 1) == 0) continue;
    if (index >= limit || filled == indices.size()) return false;
    indices[filled++] = index;
  }
  return filled == indices.size();
}

bool ReadTwelveBits(absl::Span<const uint8_t> bytes, uint32_t limit, absl::Span<uint32_t> indices) {
  if (indices.size() % 2 != 0 || bytes.size() != indices.size() / 2 * 3) return false;
  for (size_t k = 0; k < indices.size(); k += 2) {
    const uint8_t* p = bytes.data() + k / 2 * 3;
    indices[k] = p[0] | (p[1] & 0x0fu) << 8;
    indices[k + 1] = p[1] >> 4 | static_cast<uint32_t>(p[2]) << 4;
    if (indices[k + 1] <= indices[k] || indices[k + 1] >= limit) return false;
    if (k > 0 && indices[k] <= indices[k - 1]) return false;
  }
  return true;
}

}  // namespace

IndexMode WriteIndices(absl::Span<const uint32_t> indices, uint32_t limit,
                       std::vector<uint8_t>* out) {
  const size_t start = out->size();
  WriteRice(indices, limit, out);
  const size_t bitmap_bytes = (limit + 7) / 8;
  if (out->size() - start <= bitmap_bytes) return IndexMode::kRice;
  out->resize(start);
  out->resize(start + bitmap_bytes, 0);
  for (uint32_t index : indices) {
    (*out)[start + index / 8] |= static_cast<uint8_t>(1u << (index % 8));
  }
  return IndexMode::kBitmap;
}

void WriteTwelveBits(absl::Span<const uint32_t> indices, uint8_t* out) {
  assert(indices.size() % 2 == 0);
  for (size_t k = 0; k < indices.size(); k += 2, out += 3) {
    out[0] = static_cast<uint8_t>(indices[k]);
    out[1] = static_cast<uint8_t>(indices[k] >> 8 | indices[k + 1] << 4);
    out[2] = static_cast<uint8_t>(indices[k + 1] >> 4);
  }
}

bool ReadIndices(IndexMode mode, absl::Span<const uint8_t> bytes, uint32_t limit,
                 absl::Span<uint32_t> indices) {
  switch (mode) {
    case IndexMode::kRice:
      return ReadRice(bytes, limit, indices);
    case IndexMode::kBitmap:
      return ReadBitmap(bytes, limit, indices);
    case IndexMode::kTwelveBits:
      return ReadTwelveBits(bytes, limit, indices);
  }
  return false;
}

}  // namespace causeway::compression
