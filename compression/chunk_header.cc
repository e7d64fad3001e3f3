// Chunk headers and plane sizes. Fields are moved one by one: a struct sent as it lies in memory
// would depend on the compiler's padding.
#include "compression/chunk_header.h"

#include <cstring>

#include "compression/vector.h"

namespace causeway::compression {
namespace {

template <typename T>
const uint8_t* Get(const uint8_t* p, T* value) {
  std::memcpy(value, p, sizeof(T));
  return p + sizeof(T);
}

template <typename T>
uint8_t* Put(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof(T));
  return p + sizeof(T);
}

uint32_t PadToPlane(uint32_t bytes) {
  return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
}

}  // namespace

ChunkHeader ReadHeader(const uint8_t* p) {
  ChunkHeader h;
  p = Get(p, &h.magic);
  p = Get(p, &h.codec);
  p = Get(p, &h.source_dtype);
  p = Get(p, &h.log2_block);
  p = Get(p, &h.scale_type);
  p = Get(p, &h.flags);
  p = Get(p, &h.entropy);
  p = Get(p, &h.reserved);
  p = Get(p, &h.n);
  p = Get(p, &h.scale_bytes);
  p = Get(p, &h.code_bytes);
  p = Get(p, &h.seed);
  Get(p, &h.crc32c);
  return h;
}

void WriteHeader(const ChunkHeader& h, uint8_t* p) {
  p = Put(p, h.magic);
  p = Put(p, h.codec);
  p = Put(p, h.source_dtype);
  p = Put(p, h.log2_block);
  p = Put(p, h.scale_type);
  p = Put(p, h.flags);
  p = Put(p, h.entropy);
  p = Put(p, h.reserved);
  p = Put(p, h.n);
  p = Put(p, h.scale_bytes);
  p = Put(p, h.code_bytes);
  p = Put(p, h.seed);
  Put(p, h.crc32c);
}

uint32_t ChunkCrc32c(absl::Span<const uint8_t> chunk) {
  uint32_t crc = Crc32c(0, chunk.first(kChunkHeaderBytes - 4));
  return Crc32c(crc, chunk.subspan(kChunkHeaderBytes));
}

ChunkLayout LayoutOf(CodecKind kind, uint32_t block, uint32_t n) {
  const CodecTraits& traits = Traits(kind);
  ChunkLayout layout;
  layout.block = block == 0 ? 1 : block;
  layout.blocks = (n + layout.block - 1) / layout.block;
  layout.scale_bytes_used = layout.blocks * traits.scale_bits / 8;
  layout.scale_bytes = PadToPlane(layout.scale_bytes_used);
  layout.code_bytes_used = layout.blocks * layout.block * traits.code_bits / 8;
  layout.code_bytes = PadToPlane(layout.code_bytes_used);
  return layout;
}

ScaleType ScaleTypeOf(const CodecSpec& spec) {
  if (spec.kind == CodecKind::kCosine) return ScaleType::kNormAngle;
  if (spec.value_bits != 0) return spec.value_bits == 2 ? ScaleType::kBf16Pair : ScaleType::kBf16;
  switch (Traits(spec.kind).scale_bits) {
    case 8:
      return ScaleType::kE8m0;
    case 16:
      return ScaleType::kBf16;
    case 32:
      return ScaleType::kBf16Pair;
    default:
      return ScaleType::kNone;
  }
}

uint8_t Log2Block(uint32_t block) {
  uint8_t log2 = 0;
  while (block > 1) {
    block >>= 1;
    ++log2;
  }
  return log2;
}

}  // namespace causeway::compression
