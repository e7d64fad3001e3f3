// Chunks: whole blocks to the kernels, the partial last block by way of a buffer, headers, and
// every check of a received chunk. Tiles of kTileElements go through one small buffer that stays in
// the L1 cache, rather than one kernel for each combination of base, snapshot type and residual.
#include "compression/codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compression/block_math.h"
#include "compression/chunk_header.h"
#include "compression/codec_internal.h"
#include "compression/codes.h"
#include "compression/kernels/kernels.h"
#include "compression/low_rank.h"
#include "compression/sparse.h"

namespace causeway::compression {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kBf16 || dtype == DType::kFp16;
}

}  // namespace

bool PaddingIsZero(absl::Span<const uint8_t> plane, size_t used) {
  return std::all_of(plane.begin() + used, plane.end(), [](uint8_t b) { return b == 0; });
}

EncodeJob JobOf(const CodecSpec& spec, const EncodeInput& input, uint32_t begin) {
  EncodeJob job = {};
  job.base = input.base == nullptr ? nullptr : input.base + begin;
  job.snapshot =
      static_cast<const char*>(input.snapshot) + begin * DTypeBytes(input.snapshot_dtype);
  job.snapshot_dtype = input.snapshot_dtype;
  job.residual_dtype = input.residual_dtype;
  const size_t residual_offset = begin * DTypeBytes(input.residual_dtype);
  if (input.residual_in != nullptr) {
    job.residual_in = static_cast<const char*>(input.residual_in) + residual_offset;
  }
  if (input.residual_out != nullptr) {
    job.residual_out = static_cast<char*>(input.residual_out) + residual_offset;
  }
  job.stochastic = spec.stochastic;
  job.decay = static_cast<float>(spec.decay) / 1000.0f;
  job.seed = input.seed;
  job.first = begin;
  return job;
}

ChunkHeader HeaderOf(const CodecSpec& spec, const EncodeInput& input, bool nonfinite) {
  ChunkHeader header;
  header.codec = static_cast<uint8_t>(spec.kind);
  header.source_dtype = static_cast<uint8_t>(input.snapshot_dtype);
  header.log2_block = Log2Block(spec.block);
  header.scale_type = static_cast<uint8_t>(ScaleTypeOf(spec));
  header.flags = static_cast<uint16_t>((spec.error_feedback ? kFlagErrorFeedback : 0) |
                                       (spec.stochastic ? kFlagStochastic : 0) |
                                       (nonfinite ? kFlagNonFinite : 0));
  header.n = input.n;
  header.seed = spec.stochastic ? input.seed : AgreedNumber(spec);
  return header;
}

size_t FinishChunk(ChunkHeader header, absl::Span<uint8_t> out) {
  const size_t size = size_t{kChunkHeaderBytes} + header.scale_bytes + header.code_bytes;
  WriteHeader(header, out.data());
  header.crc32c = ChunkCrc32c(out.first(size));
  WriteHeader(header, out.data());
  return size;
}

absl::Status CheckHeader(const CodecSpec& expected, uint32_t expected_n,
                         const ChunkHeader& header) {
  if (header.magic != kChunkMagic) return absl::InvalidArgumentError("chunk: wrong magic number");
  if (header.codec != static_cast<uint8_t>(expected.kind) ||
      header.log2_block != Log2Block(expected.block) ||
      header.scale_type != static_cast<uint8_t>(ScaleTypeOf(expected))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk: codec id ", header.codec, ", log2 block ", header.log2_block, ", scale type ",
        header.scale_type, " where ", expected.ToString(), " is agreed"));
  }
  if (!IsFloat(static_cast<DType>(header.source_dtype))) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: source dtype ", header.source_dtype, " is not a float type"));
  }
  if (header.n != expected_n) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: ", header.n, " elements where the schema has ", expected_n));
  }
  const uint16_t agreed = static_cast<uint16_t>((expected.error_feedback ? kFlagErrorFeedback : 0) |
                                                (expected.stochastic ? kFlagStochastic : 0));
  if ((header.flags & ~kFlagNonFinite) != agreed || header.entropy != 0 || header.reserved != 0 ||
      (header.seed != AgreedNumber(expected) && !expected.stochastic)) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: flags ", header.flags, ", entropy ",
                                                   header.entropy, ", seed ", header.seed,
                                                   " do not fit ", expected.ToString()));
  }
  return absl::OkStatus();
}

namespace {

// Every scale is one that an encoder can have stored.
template <typename Stored>
absl::Status CheckScales(const ScaleLimits& limits, absl::Span<const uint8_t> scales,
                         uint32_t count, bool* nonfinite) {
  for (uint32_t k = 0; k < count; ++k) {
    Stored stored;
    std::memcpy(&stored, scales.data() + sizeof(Stored) * k, sizeof(Stored));
    if (stored == 0 || (stored >= limits.smallest && stored <= limits.largest)) continue;
    if (stored != limits.nonfinite) {
      return absl::InvalidArgumentError(absl::StrCat("chunk: scale ", k, " is ", stored,
                                                     "; legal are 0, ", limits.smallest, " to ",
                                                     limits.largest, " and ", limits.nonfinite));
    }
    *nonfinite = true;
  }
  return absl::OkStatus();
}

}  // namespace

namespace {

// A block's largest value is below 2^112, so its norm over 4096 elements is at most 2^118.
constexpr uint16_t kCosineNormMax = 0x7a80;
constexpr uint16_t kCosineAngleMax = 32767;

absl::Status CheckNormAngles(const ScaleLimits& limits, absl::Span<const uint8_t> plane,
                             uint32_t used, bool* nonfinite) {
  for (uint32_t at = 0; at < used; at += 4) {
    uint16_t fields[2];
    std::memcpy(fields, plane.data() + at, 4);
    if (fields[1] > kCosineAngleMax ||
        (fields[0] > limits.largest && fields[0] != limits.nonfinite)) {
      return absl::InvalidArgumentError(absl::StrCat("chunk: norm ", fields[0], " or angle ",
                                                     fields[1], " of block ", at / 4,
                                                     " is not legal"));
    }
    *nonfinite = *nonfinite || fields[0] == limits.nonfinite;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckScalePlane(CodecKind kind, absl::Span<const uint8_t> plane, uint32_t used,
                             bool* nonfinite) {
  if (!PaddingIsZero(plane, used)) return absl::InvalidArgumentError("chunk: padding is not zero");
  if (kind == CodecKind::kCosine)
    return CheckNormAngles(ScaleLimitsOf(kind), plane, used, nonfinite);
  if (Traits(kind).scale_bits == 8) {
    return CheckScales<uint8_t>(ScaleLimitsOf(kind), plane, used, nonfinite);
  }
  return CheckScales<uint16_t>(ScaleLimitsOf(kind), plane, used / 2, nonfinite);
}

namespace {

// Rare: only where a kernel met a non-finite value.
void CountNonFinite(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                    EncodeStats* stats) {
  constexpr uint32_t kStep = 1024;
  alignas(64) float values[kStep];
  for (uint32_t begin = 0; begin < input.n; begin += kStep) {
    const uint32_t count = std::min(kStep, input.n - begin);
    kernels.gather(JobOf(spec, input, begin), count, values);
    for (uint32_t i = 0; i < count; ++i) {
      if (math::AbsBits(values[i]) < NonFiniteBits(spec)) continue;
      ++stats->nonfinite;
      stats->first_nonfinite = std::min(stats->first_nonfinite, begin + i);
    }
  }
}

// The last block, of fewer elements than a block has: completed with zeros in a buffer.
bool EncodePartialBlock(const KernelTable& kernels, const CodecSpec& spec, const EncodeJob& partial,
                        uint32_t count) {
  alignas(64) float values[kBlockMax] = {};
  alignas(64) float residual[kBlockMax];
  kernels.gather(partial, count, values);
  EncodeJob job = partial;
  job.base = nullptr;
  job.snapshot = values;
  job.snapshot_dtype = DType::kFp32;
  job.residual_in = nullptr;
  job.residual_out = partial.residual_out == nullptr ? nullptr : residual;
  job.n = job.block;
  job.present = count;
  const bool nonfinite = kernels.encode[static_cast<size_t>(spec.kind)](job);
  if (job.residual_out != nullptr) {
    std::memcpy(partial.residual_out, residual, count * DTypeBytes(job.residual_dtype));
  }
  return nonfinite;
}

bool EncodePlanes(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                  const ChunkLayout& layout, uint8_t* scales, uint8_t* codes) {
  const CodecTraits& traits = Traits(spec.kind);
  const uint32_t whole = input.n / layout.block * layout.block;
  bool nonfinite = false;
  if (whole > 0) {
    EncodeJob job = JobOf(spec, input, 0);
    job.scales = scales;
    job.codes = codes;
    job.block = layout.block;
    job.n = whole;
    job.present = whole;
    nonfinite = kernels.encode[static_cast<size_t>(spec.kind)](job);
  }
  if (whole < input.n) {
    EncodeJob job = JobOf(spec, input, whole);
    job.scales = scales + whole / layout.block * (traits.scale_bits / 8);
    job.codes = codes + whole / 8 * traits.code_bits;
    job.block = layout.block;
    nonfinite = EncodePartialBlock(kernels, spec, job, input.n - whole) || nonfinite;
  }
  return nonfinite;
}

// n > 0.
bool CastNonFinite(CodecKind kind, absl::Span<const uint8_t> codes, uint32_t n) {
  const KernelTable& kernels = ActiveKernels();
  switch (kind) {
    case CodecKind::kFp32:
      return kernels.largest_magnitude_32(codes.data(), n) >= math::kInfBits;
    case CodecKind::kFp16:
      return kernels.largest_magnitude_16(codes.data(), n) >= 0x7c00u;
    case CodecKind::kBf16:
      return kernels.largest_magnitude_16(codes.data(), n) >= 0x7f80u;
    default:  // the planes: exponents come first
      return std::memchr(codes.data(), 0xff, n) != nullptr;
  }
}

absl::Status CheckPlanes(const CodecSpec& expected, const ChunkLayout& layout,
                         const ChunkHeader& header, absl::Span<const uint8_t> bytes) {
  absl::Span<const uint8_t> scales = bytes.subspan(kChunkHeaderBytes, layout.scale_bytes);
  absl::Span<const uint8_t> codes = bytes.subspan(kChunkHeaderBytes + layout.scale_bytes);
  if (!PaddingIsZero(codes, layout.code_bytes_used)) {
    return absl::InvalidArgumentError("chunk: padding is not zero");
  }
  bool nonfinite = false;
  if (expected.block == 0) {
    nonfinite = header.n > 0 && CastNonFinite(expected.kind, codes, header.n);
  } else {
    absl::Status status =
        CheckScalePlane(expected.kind, scales, layout.scale_bytes_used, &nonfinite);
    if (!status.ok()) return status;
  }
  if (nonfinite != ((header.flags & kFlagNonFinite) != 0)) {
    return absl::InvalidArgumentError("chunk: the non-finite flag contradicts the contents");
  }
  return absl::OkStatus();
}

void Decode(const KernelTable& kernels, absl::Span<const uint8_t> bytes, bool accumulate,
            float weight, float* out) {
  const ChunkHeader header = ReadHeader(bytes.data());
  const CodecKind kind = static_cast<CodecKind>(header.codec);
  if (IsSparse(kind)) return DecodeSparse(kernels, bytes, accumulate, weight, out);
  if (kind == CodecKind::kLowRank) return DecodeLowRank(kernels, bytes, accumulate, weight, out);
  const CodecTraits& traits = Traits(kind);
  const DecodeFn decode = kernels.decode[header.codec];
  DecodeJob job = {};
  job.scales = bytes.data() + kChunkHeaderBytes;
  job.codes = job.scales + header.scale_bytes;
  job.block = header.log2_block == 0 ? 1 : 1u << header.log2_block;
  job.n = header.n / job.block * job.block;
  job.accumulate = accumulate;
  job.weight = weight;
  job.out = out;
  if (job.n > 0) decode(job);
  if (job.n == header.n) return;
  // The last block is partial: its codes go beyond n.
  alignas(64) float buffer[kBlockMax] = {};
  const uint32_t count = header.n - job.n;
  out += job.n;
  if (accumulate) std::copy(out, out + count, buffer);
  job.scales += job.n / job.block * (traits.scale_bits / 8);
  job.codes += job.n / 8 * traits.code_bits;
  job.n = job.block;
  job.out = buffer;
  decode(job);
  std::copy(buffer, buffer + count, out);
}

}  // namespace

namespace {

template <class Code>
ScaleLimits LimitsByMagnitude(uint16_t nonfinite) {
  return {Code::Scale(math::kTinyBits).stored, Code::Scale(math::kHugeBits - 1).stored, nonfinite};
}

}  // namespace

uint32_t NonFiniteBits(const CodecSpec& spec) {
  if (spec.kind == CodecKind::kSign || spec.kind == CodecKind::kTwoBit ||
      spec.kind == CodecKind::kCosine || spec.value_bits == 2) {
    return math::kMeanHugeBits;
  }
  if (spec.kind == CodecKind::kLowRank) return kLowRankHugeBits;
  return spec.block == 0 && spec.value_bits == 0 ? math::kInfBits : math::kHugeBits;
}

ScaleLimits ScaleLimitsOf(CodecKind kind) {
  constexpr uint16_t kNan = math::kCanonicalNanBf16;
  switch (kind) {
    case CodecKind::kInt8:
      return LimitsByMagnitude<math::IntegerCode<8>>(kNan);
    case CodecKind::kInt4:
      return LimitsByMagnitude<math::IntegerCode<4>>(kNan);
    case CodecKind::kNf4:
      return LimitsByMagnitude<math::Nf4Code>(kNan);
    case CodecKind::kFp8:
      return LimitsByMagnitude<math::Fp8Code>(kNan);
    case CodecKind::kMxfp4:
      return LimitsByMagnitude<math::Mxfp4Code>(255);
    case CodecKind::kE3m0:
      return LimitsByMagnitude<math::E3m0Code>(kNan);
    case CodecKind::kCosine:
      return {1, kCosineNormMax, kNan};
    case CodecKind::kTwoBit:
    case CodecKind::kSign:
      return {0, math::ToBf16(math::FromBits(math::kMeanHugeBits)), kNan};
    case CodecKind::kFp32:
    case CodecKind::kBf16:
    case CodecKind::kFp16:
    case CodecKind::kTopK:
    case CodecKind::kBlockTopK:
    case CodecKind::kBf16Planes:
    case CodecKind::kFp32Planes:
    case CodecKind::kPatch:
    case CodecKind::kLowRank:
      break;
  }
  assert(false);
  return {};
}

size_t EncodedSizeMax(const CodecSpec& spec, uint32_t n) {
  if (IsSparse(spec.kind)) return SparseSizeMax(spec, n);
  if (spec.kind == CodecKind::kLowRank) return LowRankSizeMax(n);
  return LayoutOf(spec.kind, spec.block, n).TotalBytes();
}

size_t EncodeChunkWith(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                       absl::Span<uint8_t> out, EncodeStats* stats) {
  assert(ValidateSpec(spec).ok());
  assert(input.n <= kChunkElements && IsFloat(input.snapshot_dtype));
  assert(input.residual_dtype == DType::kBf16 || input.residual_dtype == DType::kFp32);
  assert(input.residual_out == nullptr || input.residual_out != input.residual_in);
  assert(out.size() >= (input.pieces.empty() ? EncodedSizeMax(spec, input.n)
                                             : LowRankSize(spec.rank, input.pieces)));
  if (IsSparse(spec.kind)) return EncodeSparse(kernels, spec, input, out, stats);
  if (spec.kind == CodecKind::kLowRank) return EncodeLowRank(kernels, spec, input, out, stats);
  const ChunkLayout layout = LayoutOf(spec.kind, spec.block, input.n);
  uint8_t* scales = out.data() + kChunkHeaderBytes;
  uint8_t* codes = scales + layout.scale_bytes;
  std::memset(scales + layout.scale_bytes_used, 0, layout.scale_bytes - layout.scale_bytes_used);
  std::memset(codes + layout.code_bytes_used, 0, layout.code_bytes - layout.code_bytes_used);
  const bool nonfinite = EncodePlanes(kernels, spec, input, layout, scales, codes);
  if (nonfinite) CountNonFinite(kernels, spec, input, stats);
  ChunkHeader header = HeaderOf(spec, input, nonfinite);
  header.scale_bytes = layout.scale_bytes;
  header.code_bytes = layout.code_bytes;
  return FinishChunk(header, out);
}

size_t EncodeChunk(const CodecSpec& spec, const EncodeInput& input, absl::Span<uint8_t> out,
                   EncodeStats* stats) {
  return EncodeChunkWith(ActiveKernels(), spec, input, out, stats);
}

absl::Status CheckChunk(const CodecSpec& expected, uint32_t expected_n,
                        absl::Span<const uint8_t> bytes) {
  assert(ValidateSpec(expected).ok() && expected_n <= kChunkElements);
  if (IsSparse(expected.kind)) return CheckSparse(expected, expected_n, bytes);
  if (expected.kind == CodecKind::kLowRank) return CheckLowRank(expected, expected_n, bytes);
  const ChunkLayout layout = LayoutOf(expected.kind, expected.block, expected_n);
  if (bytes.size() != layout.TotalBytes()) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: ", bytes.size(), " bytes where ",
                                                   expected_n, " elements of ", expected.ToString(),
                                                   " take ", layout.TotalBytes()));
  }
  const ChunkHeader header = ReadHeader(bytes.data());
  absl::Status status = CheckHeader(expected, expected_n, header);
  if (!status.ok()) return status;
  if (header.scale_bytes != layout.scale_bytes || header.code_bytes != layout.code_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: planes of ", header.scale_bytes, " and ", header.code_bytes,
                     " bytes where ", layout.scale_bytes, " and ", layout.code_bytes, " belong"));
  }
  if (header.crc32c != ChunkCrc32c(bytes)) {
    return absl::DataLossError("chunk: crc32c differs; bytes were damaged on the way");
  }
  return CheckPlanes(expected, layout, header, bytes);
}

bool ChunkNonFinite(absl::Span<const uint8_t> bytes) {
  return (ReadHeader(bytes.data()).flags & kFlagNonFinite) != 0;
}

void DecodeChunkWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float* out) {
  Decode(kernels, bytes, false, 1.0f, out);
}

void DecodeAccumulateWith(const KernelTable& kernels, absl::Span<const uint8_t> bytes, float weight,
                          float* acc) {
  Decode(kernels, bytes, true, weight, acc);
}

void DecodeChunk(absl::Span<const uint8_t> bytes, float* out) {
  DecodeChunkWith(ActiveKernels(), bytes, out);
}

void DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight, float* acc) {
  DecodeAccumulateWith(ActiveKernels(), bytes, weight, acc);
}

}  // namespace causeway::compression
