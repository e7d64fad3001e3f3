// The 32 bytes in front of every encoded chunk, and the sizes of the planes behind it (FORMAT.md).
//
// Pure functions. Reading never looks beyond the 32 bytes and believes nothing: codec.cc checks the
// fields against what the receiver expects.
#ifndef CAUSEWAY_COMPRESSION_CHUNK_HEADER_H_
#define CAUSEWAY_COMPRESSION_CHUNK_HEADER_H_

#include <cstdint>

#include "compression/codec.h"

namespace causeway::compression {

inline constexpr uint32_t kChunkMagic = 0x31435743u;  // "CWC1"

// Flags. The remaining bits are zero.
inline constexpr uint16_t kFlagErrorFeedback = 1;
inline constexpr uint16_t kFlagStochastic = 2;
inline constexpr uint16_t kFlagNonFinite = 4;
inline constexpr uint16_t kFlagEntropy = 8;

// What the scale plane holds.
enum class ScaleType : uint8_t {
  kNone = 0,
  kBf16 = 1,       // one bf16 a block
  kE8m0 = 2,       // one exponent byte a block
  kBf16Pair = 3,   // two bf16 a block
  kNormAngle = 4,  // a bf16 norm and a 16-bit angle a block
};

struct ChunkHeader {
  uint32_t magic = kChunkMagic;
  uint8_t codec = 0;
  uint8_t source_dtype = 0;
  uint8_t log2_block = 0;
  uint8_t scale_type = 0;
  uint16_t flags = 0;
  uint8_t entropy = 0;
  uint8_t reserved = 0;
  uint32_t n = 0;
  uint32_t scale_bytes = 0;  // padding included
  uint32_t code_bytes = 0;   // padding included
  uint32_t seed = 0;
  uint32_t crc32c = 0;  // of the 28 bytes before it and everything behind the header
};

// Fields from / to kChunkHeaderBytes bytes.
ChunkHeader ReadHeader(const uint8_t* bytes);
void WriteHeader(const ChunkHeader& header, uint8_t* bytes);

// The checksum that belongs into header.crc32c of a chunk whose other bytes are complete.
uint32_t ChunkCrc32c(absl::Span<const uint8_t> chunk);

// Byte sizes of a chunk of n elements before the entropy stage; planes include their padding.
struct ChunkLayout {
  uint32_t block = 1;   // elements; 1 for casts
  uint32_t blocks = 0;  // the last one may be partial
  uint32_t scale_bytes_used = 0;
  uint32_t scale_bytes = 0;
  uint32_t code_bytes_used = 0;
  uint32_t code_bytes = 0;
  uint32_t TotalBytes() const { return kChunkHeaderBytes + scale_bytes + code_bytes; }
};
ChunkLayout LayoutOf(CodecKind kind, uint32_t block, uint32_t n);

ScaleType ScaleTypeOf(const CodecSpec& spec);
uint8_t Log2Block(uint32_t block);  // 0 for casts

}  // namespace causeway::compression

#endif  // CAUSEWAY_COMPRESSION_CHUNK_HEADER_H_
