// zstd with the match search switched off: on quantised values it finds nothing, and Huffman
// literals alone are as small as any level and faster.
#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_c_literalCompressionMode
#include "compression/entropy.h"

#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/chunk_header.h"

namespace causeway::compression {
namespace {

constexpr size_t kSampleBytes = 65536;
constexpr size_t kSamplePieces = 16;
constexpr uint8_t kEntropyZstd = 1;
constexpr int kNoMatchSearchLevel = -131072;  // the step of the match search exceeds a block

struct CompressorDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct DecompressorDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

std::unique_ptr<ZSTD_CCtx, CompressorDeleter> MakeCompressor() {
  std::unique_ptr<ZSTD_CCtx, CompressorDeleter> context(ZSTD_createCCtx());
  auto set = [&](ZSTD_cParameter parameter, int value) {
    size_t result = ZSTD_CCtx_setParameter(context.get(), parameter, value);
    assert(!ZSTD_isError(result));
    static_cast<void>(result);
  };
  set(ZSTD_c_compressionLevel, std::max(kNoMatchSearchLevel, ZSTD_minCLevel()));
  set(ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
  set(ZSTD_c_hashLog, ZSTD_HASHLOG_MIN);
  return context;
}

bool IsPacked(absl::Span<const uint8_t> bytes) {
  return bytes.size() >= kChunkHeaderBytes && (ReadHeader(bytes.data()).flags & kFlagEntropy) != 0;
}

// Everything about a packed chunk that does not need its contents.
absl::Status CheckPacked(const ChunkLayout& layout, const ChunkHeader& header,
                         absl::Span<const uint8_t> bytes) {
  if (header.entropy != kEntropyZstd) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: entropy coder ", header.entropy, " is unknown"));
  }
  if (header.scale_bytes != layout.scale_bytes || header.code_bytes == 0 ||
      header.code_bytes >= layout.code_bytes ||
      bytes.size() != size_t{kChunkHeaderBytes} + header.scale_bytes + header.code_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: ", bytes.size(), " packed bytes with planes of ", header.scale_bytes,
                     " and ", header.code_bytes, " where ", layout.scale_bytes, " and less than ",
                     layout.code_bytes, " belong"));
  }
  if (header.crc32c != ChunkCrc32c(bytes)) {
    return absl::DataLossError("chunk: crc32c differs; bytes were damaged on the way");
  }
  absl::Span<const uint8_t> frame = bytes.subspan(kChunkHeaderBytes + header.scale_bytes);
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != layout.code_bytes ||
      ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return absl::InvalidArgumentError("chunk: the zstd frame does not hold exactly the code plane");
  }
  return absl::OkStatus();
}

}  // namespace

struct EntropyWorkspace::State {
  std::unique_ptr<ZSTD_CCtx, CompressorDeleter> compressor;
  std::unique_ptr<ZSTD_DCtx, DecompressorDeleter> decompressor;
  std::vector<uint8_t> plain;
};

EntropyWorkspace::EntropyWorkspace() : state_(std::make_unique<State>()) {}
EntropyWorkspace::~EntropyWorkspace() = default;
EntropyWorkspace::EntropyWorkspace(EntropyWorkspace&&) noexcept = default;
EntropyWorkspace& EntropyWorkspace::operator=(EntropyWorkspace&&) noexcept = default;

double EstimateEntropyRatio(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return 1.0;
  uint32_t counts[4][256] = {};  // four, so that equal neighbours do not wait for each other
  const size_t piece = std::min(bytes.size(), kSampleBytes) / kSamplePieces;
  size_t total = 0;
  for (size_t k = 0; k < kSamplePieces && piece > 0; ++k) {
    const uint8_t* p = bytes.data() + (bytes.size() - piece) / kSamplePieces * k;
    for (size_t i = 0; i < piece; ++i) ++counts[i % 4][p[i]];
    total += piece;
  }
  if (total == 0) return 1.0;
  double bits = 0;
  for (int value = 0; value < 256; ++value) {
    double count = counts[0][value] + counts[1][value] + counts[2][value] + counts[3][value];
    if (count > 0) bits += count * std::log2(static_cast<double>(total) / count);
  }
  return bits < 1 ? 8.0 * static_cast<double>(total) : 8.0 * static_cast<double>(total) / bits;
}

bool EntropyPays(double ratio, double idle_cores, double link_bytes_per_second) {
  return ratio >= kEntropyRatioMin &&
         idle_cores * kEntropyBytesPerSecond >= ratio * link_bytes_per_second;
}

absl::Span<const uint8_t> PackChunk(absl::Span<const uint8_t> chunk, const PackingSite& site,
                                    EntropyWorkspace* workspace, absl::Span<uint8_t> out) {
  assert(chunk.size() >= kChunkHeaderBytes && out.size() >= chunk.size());
  ChunkHeader header = ReadHeader(chunk.data());
  assert((header.flags & kFlagEntropy) == 0);
  absl::Span<const uint8_t> codes = chunk.subspan(kChunkHeaderBytes + header.scale_bytes);
  if (!EntropyPays(EstimateEntropyRatio(codes), site.idle_cores, site.link_bytes_per_second)) {
    return chunk;
  }
  EntropyWorkspace::State& state = *workspace->state_;
  if (state.compressor == nullptr) state.compressor = MakeCompressor();
  const size_t front = kChunkHeaderBytes + header.scale_bytes;
  // The room given is below the plain size: a frame that would not be smaller is an error here.
  const size_t room = static_cast<size_t>(static_cast<double>(codes.size()) / kEntropyRatioMin);
  size_t size =
      ZSTD_compress2(state.compressor.get(), out.data() + front, room, codes.data(), codes.size());
  if (ZSTD_isError(size)) return chunk;
  std::memcpy(out.data() + kChunkHeaderBytes, chunk.data() + kChunkHeaderBytes, header.scale_bytes);
  header.flags |= kFlagEntropy;
  header.entropy = kEntropyZstd;
  header.code_bytes = static_cast<uint32_t>(size);
  WriteHeader(header, out.data());
  header.crc32c = ChunkCrc32c(out.first(front + size));
  WriteHeader(header, out.data());
  return out.first(front + size);
}

absl::StatusOr<absl::Span<const uint8_t>> OpenChunk(const CodecSpec& expected, uint32_t expected_n,
                                                    absl::Span<const uint8_t> bytes,
                                                    EntropyWorkspace* workspace) {
  if (!IsPacked(bytes)) {
    absl::Status status = CheckChunk(expected, expected_n, bytes);
    if (!status.ok()) return status;
    return bytes;
  }
  if (!expected.entropy) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: packed, where ", expected.ToString(), " without zstd is agreed"));
  }
  const ChunkLayout layout = LayoutOf(expected.kind, expected.block, expected_n);
  ChunkHeader header = ReadHeader(bytes.data());
  absl::Status status = CheckPacked(layout, header, bytes);
  if (!status.ok()) return status;

  EntropyWorkspace::State& state = *workspace->state_;
  if (state.decompressor == nullptr) state.decompressor.reset(ZSTD_createDCtx());
  const size_t front = kChunkHeaderBytes + layout.scale_bytes;
  state.plain.resize(layout.TotalBytes());
  size_t size = ZSTD_decompressDCtx(state.decompressor.get(), state.plain.data() + front,
                                    layout.code_bytes, bytes.data() + front, header.code_bytes);
  if (ZSTD_isError(size) || size != layout.code_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk: zstd: ", ZSTD_isError(size) ? ZSTD_getErrorName(size) : "short frame"));
  }
  std::memcpy(state.plain.data() + kChunkHeaderBytes, bytes.data() + kChunkHeaderBytes,
              layout.scale_bytes);
  header.flags &= static_cast<uint16_t>(~kFlagEntropy);
  header.entropy = 0;
  header.code_bytes = layout.code_bytes;
  WriteHeader(header, state.plain.data());
  header.crc32c = ChunkCrc32c(state.plain);
  WriteHeader(header, state.plain.data());
  status = CheckChunk(expected, expected_n, state.plain);
  if (!status.ok()) return status;
  return absl::MakeConstSpan(state.plain);
}

}  // namespace causeway::compression
