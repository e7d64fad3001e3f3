// topk and btopk. The kept values, in index order, form a short dense vector that int4 or 2bit
// encodes in blocks of its own; so values need no code here.
#include "compression/sparse.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/block_math.h"
#include "compression/codec_internal.h"
#include "compression/index_set.h"

namespace causeway::compression {
namespace {

constexpr uint32_t kValueBlock = 64;       // of topk's values
constexpr uint32_t kPreambleBytes = 16;    // of topk's code plane: count, mode, index bytes
constexpr uint32_t kHistogramBins = 2048;  // sign-free bits >> 20: exponent and three mantissa bits
constexpr uint32_t kPermyriad = 10000;

CodecKind ValueKind(const CodecSpec& spec) {
  if (spec.kind == CodecKind::kPatch) return CodecKind::kBf16;
  return spec.value_bits == 2 ? CodecKind::kTwoBit : CodecKind::kInt4;
}

uint32_t PadTo(uint32_t bytes, uint32_t unit) { return (bytes + unit - 1) / unit * unit; }

// Where the parts of a chunk lie.
struct SparseLayout {
  CodecKind value_kind;
  bool by_block;               // btopk
  uint32_t count;              // kept values
  uint32_t value_block;        // elements that share a scale
  uint32_t value_scale_bytes;  // of all values, without padding
  uint32_t value_code_bytes;
  uint32_t scale_bytes;  // of the plane, with padding
  uint32_t blocks;       // btopk: blocks of the chunk
};

SparseLayout LayoutOfSparse(const CodecSpec& spec, uint32_t n, uint32_t count) {
  SparseLayout layout = {};
  layout.value_kind = ValueKind(spec);
  layout.by_block = spec.kind == CodecKind::kBlockTopK;
  layout.count = count;
  layout.blocks = layout.by_block ? (n + spec.block - 1) / spec.block : 0;
  layout.value_block = layout.by_block                  ? spec.keep
                       : spec.kind == CodecKind::kPatch ? 1
                                                        : kValueBlock;
  const CodecTraits& traits = Traits(layout.value_kind);
  const uint32_t value_blocks = (layout.count + layout.value_block - 1) / layout.value_block;
  layout.value_scale_bytes = value_blocks * traits.scale_bits / 8;
  layout.value_code_bytes = value_blocks * layout.value_block * traits.code_bits / 8;
  layout.scale_bytes = PadTo(layout.value_scale_bytes, kPlaneAlignment);
  return layout;
}

// Indices, in increasing order, of the `keep` values of largest magnitude; of equal ones the first.
// A histogram finds the bin in which the threshold lies; only that bin's values are compared.
void SelectLargest(absl::Span<const float> values, uint32_t keep, uint32_t offset,
                   std::vector<uint32_t>* indices) {
  if (keep == 0) return;
  uint32_t histogram[kHistogramBins] = {};
  for (float v : values) ++histogram[math::AbsBits(v) >> 20];
  uint32_t above = 0;  // values in higher bins
  uint32_t bin = kHistogramBins - 1;
  while (above + histogram[bin] < keep) above += histogram[bin--];

  std::vector<uint32_t> candidates;
  candidates.reserve(histogram[bin]);
  for (float v : values) {
    if (math::AbsBits(v) >> 20 == bin) candidates.push_back(math::AbsBits(v));
  }
  const uint32_t wanted = keep - above;  // of the candidates
  std::nth_element(candidates.begin(), candidates.begin() + (wanted - 1), candidates.end(),
                   std::greater<uint32_t>());
  const uint32_t threshold = candidates[wanted - 1];
  uint32_t equal = wanted - static_cast<uint32_t>(
                                std::count_if(candidates.begin(), candidates.end(),
                                              [threshold](uint32_t c) { return c > threshold; }));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t magnitude = math::AbsBits(values[i]);
    if (magnitude < threshold || (magnitude == threshold && equal == 0)) continue;
    if (magnitude == threshold) --equal;
    indices->push_back(offset + static_cast<uint32_t>(i));
  }
}

// Encodes the kept values into their planes; `lost` gets what each of them loses.
bool EncodeValues(const KernelTable& kernels, const SparseLayout& layout, std::vector<float> kept,
                  uint8_t* scales, uint8_t* codes, std::vector<float>* lost) {
  if (layout.count == 0) return false;
  kept.resize(PadTo(layout.count, layout.value_block), 0.0f);
  lost->resize(kept.size());
  EncodeJob job = {};
  job.snapshot = kept.data();
  job.snapshot_dtype = DType::kFp32;
  job.residual_out = lost->data();
  job.residual_dtype = DType::kFp32;
  job.scales = scales;
  job.codes = codes;
  job.n = static_cast<uint32_t>(kept.size());
  job.block = layout.value_block;
  job.present = layout.count;
  return kernels.encode[static_cast<size_t>(layout.value_kind)](job);
}

void StoreSparseResidual(const KernelTable& kernels, const EncodeInput& input, uint32_t limit,
                         absl::Span<const uint32_t> indices, absl::Span<const float> lost,
                         float* values) {
  for (uint32_t i = 0; i < input.n; ++i)
    values[i] = math::AbsBits(values[i]) < limit ? values[i] : 0.0f;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (indices[k] < input.n) values[indices[k]] = lost[k];
  }
  if (input.residual_dtype == DType::kFp32) {
    std::memcpy(input.residual_out, values, input.n * sizeof(float));
  } else {
    kernels.to_bf16(values, input.n, static_cast<uint16_t*>(input.residual_out));
  }
}

// Values whose going missing would be seen in bf16 parameters: bf16(base - v) differs from
// bf16(base).
void SelectVisible(const EncodeInput& input, absl::Span<const float> values,
                   std::vector<uint32_t>* indices) {
  for (uint32_t i = 0; i < input.n; ++i) {
    const float before = input.base == nullptr ? 0.0f : input.base[i];
    if (math::ToBf16(before - values[i]) != math::ToBf16(before)) indices->push_back(i);
  }
}

std::vector<uint32_t> Select(const CodecSpec& spec, const EncodeInput& input,
                             absl::Span<const float> values) {
  std::vector<uint32_t> indices;
  switch (spec.kind) {
    case CodecKind::kPatch:
      SelectVisible(input, values, &indices);
      break;
    case CodecKind::kBlockTopK:
      for (uint32_t begin = 0; begin < values.size(); begin += spec.block) {
        SelectLargest(values.subspan(begin, spec.block), spec.keep, begin, &indices);
      }
      break;
    default:
      SelectLargest(values, SparseCount(spec, input.n), 0, &indices);
  }
  return indices;
}

bool CountHuge(absl::Span<const float> values, uint32_t limit, EncodeStats* stats) {
  const size_t first = stats->nonfinite;
  for (size_t i = 0; i < values.size(); ++i) {
    if (math::AbsBits(values[i]) < limit) continue;
    ++stats->nonfinite;
    stats->first_nonfinite = std::min(stats->first_nonfinite, static_cast<uint32_t>(i));
  }
  return stats->nonfinite != first;
}

// btopk: each block's indices (12 bits each), then its codes; topk: preamble, indices, codes.
uint32_t PlaceBlocks(const CodecSpec& spec, const SparseLayout& layout,
                     absl::Span<const uint32_t> indices, const std::vector<uint8_t>& codes,
                     uint8_t* plane) {
  const uint32_t index_bytes = spec.keep / 2 * 3;
  const uint32_t code_bytes = layout.blocks == 0 ? 0 : layout.value_code_bytes / layout.blocks;
  std::vector<uint32_t> local(spec.keep);
  for (uint32_t b = 0; b < layout.blocks; ++b) {
    for (uint32_t k = 0; k < spec.keep; ++k) local[k] = indices[b * spec.keep + k] - b * spec.block;
    WriteTwelveBits(local, plane);
    std::memcpy(plane + index_bytes, codes.data() + b * code_bytes, code_bytes);
    plane += index_bytes + code_bytes;
  }
  return layout.blocks * (index_bytes + code_bytes);
}

uint32_t PlaceWhole(uint32_t n, absl::Span<const uint32_t> indices,
                    const std::vector<uint8_t>& codes, uint8_t* plane) {
  std::vector<uint8_t> index_bytes;
  const IndexMode mode = WriteIndices(indices, n, &index_bytes);
  const uint32_t fields[4] = {static_cast<uint32_t>(indices.size()), static_cast<uint32_t>(mode),
                              static_cast<uint32_t>(index_bytes.size()), 0};
  std::memcpy(plane, fields, kPreambleBytes);
  std::memcpy(plane + kPreambleBytes, index_bytes.data(), index_bytes.size());
  std::memcpy(plane + kPreambleBytes + index_bytes.size(), codes.data(), codes.size());
  return static_cast<uint32_t>(kPreambleBytes + index_bytes.size() + codes.size());
}

// Number of kept values: agreed, or for patch what the chunk says. False when it says the
// impossible.
bool CountOf(const CodecSpec& spec, uint32_t n, absl::Span<const uint8_t> plane, uint32_t* count) {
  *count = SparseCount(spec, n);
  if (spec.kind == CodecKind::kBlockTopK) return true;
  if (plane.size() < kPreambleBytes) return n == 0 && plane.empty();
  uint32_t said;
  std::memcpy(&said, plane.data(), sizeof(said));
  const bool possible = spec.kind == CodecKind::kPatch ? said <= n : said == *count;
  *count = possible ? said : *count;
  return possible;
}

// What a chunk's planes say, with everything verified by CheckSparse or known to be so.
struct SparseView {
  std::vector<uint32_t> indices;
  std::vector<uint8_t> codes;  // of all values, contiguous
};

bool ViewBlocks(const CodecSpec& spec, const SparseLayout& layout, absl::Span<const uint8_t> plane,
                SparseView* view) {
  const uint32_t index_bytes = spec.keep / 2 * 3;
  const uint32_t code_bytes = layout.blocks == 0 ? 0 : layout.value_code_bytes / layout.blocks;
  view->indices.resize(layout.count);
  view->codes.resize(layout.value_code_bytes);
  for (uint32_t b = 0; b < layout.blocks; ++b) {
    absl::Span<uint32_t> indices = absl::MakeSpan(view->indices).subspan(b * spec.keep, spec.keep);
    absl::Span<const uint8_t> block = plane.subspan(b * (index_bytes + code_bytes));
    if (!ReadIndices(IndexMode::kTwelveBits, block.first(index_bytes), spec.block, indices))
      return false;
    for (uint32_t& index : indices) index += b * spec.block;
    std::memcpy(view->codes.data() + b * code_bytes, block.data() + index_bytes, code_bytes);
  }
  return true;
}

bool ViewWhole(const SparseLayout& layout, uint32_t n, absl::Span<const uint8_t> plane,
               SparseView* view) {
  uint32_t fields[4];
  std::memcpy(fields, plane.data(), kPreambleBytes);
  if (fields[0] != layout.count || fields[1] > 1 || fields[3] != 0) return false;
  if (fields[2] > plane.size() ||
      plane.size() !=
          PadTo(kPreambleBytes + fields[2] + layout.value_code_bytes, kPlaneAlignment)) {
    return false;
  }
  view->indices.resize(layout.count);
  const absl::Span<const uint8_t> codes = plane.subspan(kPreambleBytes + fields[2]);
  view->codes.assign(codes.begin(), codes.begin() + layout.value_code_bytes);
  if (!PaddingIsZero(codes, layout.value_code_bytes)) return false;
  return ReadIndices(static_cast<IndexMode>(fields[1]), plane.subspan(kPreambleBytes, fields[2]), n,
                     absl::MakeSpan(view->indices));
}

bool ViewPlane(const CodecSpec& spec, const SparseLayout& layout, uint32_t n,
               absl::Span<const uint8_t> plane, SparseView* view) {
  if (n == 0) return plane.empty();
  if (!layout.by_block) return ViewWhole(layout, n, plane, view);
  const uint32_t used = layout.count / 2 * 3 + layout.value_code_bytes;
  return plane.size() == PadTo(used, kPlaneAlignment) && PaddingIsZero(plane, used) &&
         ViewBlocks(spec, layout, plane, view);
}

// The spec that a chunk's header stands for, as far as decoding needs it.
CodecSpec SpecOfHeader(const ChunkHeader& header) {
  CodecSpec spec;
  spec.kind = static_cast<CodecKind>(header.codec);
  spec.block = header.log2_block == 0 ? 0 : static_cast<uint16_t>(1u << header.log2_block);
  if (spec.kind != CodecKind::kPatch) {
    spec.value_bits = header.scale_type == static_cast<uint8_t>(ScaleType::kBf16Pair) ? 2 : 4;
  }
  spec.keep = static_cast<uint16_t>(header.seed);
  return spec;
}

}  // namespace

uint32_t SparseCount(const CodecSpec& spec, uint32_t n) {
  if (spec.kind == CodecKind::kPatch) return n;
  if (spec.kind == CodecKind::kBlockTopK) return (n + spec.block - 1) / spec.block * spec.keep;
  return static_cast<uint32_t>((static_cast<uint64_t>(n) * spec.keep + kPermyriad - 1) /
                               kPermyriad);
}

size_t SparseSizeMax(const CodecSpec& spec, uint32_t n) {
  const SparseLayout layout = LayoutOfSparse(spec, n, SparseCount(spec, n));
  const uint32_t index_bytes =
      layout.by_block ? layout.count / 2 * 3 : kPreambleBytes + (n + 7) / 8;
  return kChunkHeaderBytes + layout.scale_bytes +
         (n == 0 ? 0 : PadTo(index_bytes + layout.value_code_bytes, kPlaneAlignment));
}

size_t EncodeSparse(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                    absl::Span<uint8_t> out, EncodeStats* stats) {
  const uint32_t limit = NonFiniteBits(spec);
  const uint32_t block = spec.kind == CodecKind::kBlockTopK ? spec.block : 1;
  std::vector<float> values((input.n + block - 1) / block * block, 0.0f);
  if (input.n > 0) kernels.gather(JobOf(spec, input, 0), input.n, values.data());
  bool nonfinite = false;
  if (kernels.largest_magnitude_32(reinterpret_cast<const uint8_t*>(values.data()), input.n) >=
      limit) {
    nonfinite = CountHuge(absl::MakeConstSpan(values).first(input.n), limit, stats);
  }
  const std::vector<uint32_t> indices = Select(spec, input, values);
  const SparseLayout layout = LayoutOfSparse(spec, input.n, static_cast<uint32_t>(indices.size()));
  std::vector<float> kept(indices.size());
  for (size_t k = 0; k < indices.size(); ++k) kept[k] = values[indices[k]];
  std::vector<float> lost;
  std::vector<uint8_t> codes(layout.value_code_bytes);
  uint8_t* scales = out.data() + kChunkHeaderBytes;
  std::memset(scales, 0, layout.scale_bytes);
  nonfinite =
      EncodeValues(kernels, layout, std::move(kept), scales, codes.data(), &lost) || nonfinite;
  if (input.residual_out != nullptr) {
    StoreSparseResidual(kernels, input, limit, indices, lost, values.data());
  }

  uint8_t* plane = scales + layout.scale_bytes;
  uint32_t used = 0;
  if (input.n > 0) {
    used = layout.by_block ? PlaceBlocks(spec, layout, indices, codes, plane)
                           : PlaceWhole(input.n, indices, codes, plane);
  }
  ChunkHeader header = HeaderOf(spec, input, nonfinite);
  header.scale_bytes = layout.scale_bytes;
  header.code_bytes = PadTo(used, kPlaneAlignment);
  header.seed = spec.keep;
  std::memset(plane + used, 0, header.code_bytes - used);
  return FinishChunk(header, out);
}

absl::Status CheckSparse(const CodecSpec& expected, uint32_t expected_n,
                         absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kChunkHeaderBytes || bytes.size() > SparseSizeMax(expected, expected_n)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk: ", bytes.size(), " bytes where ", expected_n, " elements of ",
                     expected.ToString(), " take at most ", SparseSizeMax(expected, expected_n)));
  }
  const ChunkHeader header = ReadHeader(bytes.data());
  absl::Status status = CheckHeader(expected, expected_n, header);
  if (!status.ok()) return status;
  if (bytes.size() - kChunkHeaderBytes != uint64_t{header.scale_bytes} + header.code_bytes) {
    return absl::InvalidArgumentError("chunk: plane sizes do not fit the chunk");
  }
  if (header.crc32c != ChunkCrc32c(bytes)) {
    return absl::DataLossError("chunk: crc32c differs; bytes were damaged on the way");
  }
  const absl::Span<const uint8_t> scales = bytes.subspan(kChunkHeaderBytes, header.scale_bytes);
  const absl::Span<const uint8_t> plane = bytes.subspan(kChunkHeaderBytes + header.scale_bytes);
  uint32_t count = 0;
  const bool counted = CountOf(expected, expected_n, plane, &count);
  const SparseLayout layout = LayoutOfSparse(expected, expected_n, count);
  SparseView view;
  if (!counted || header.scale_bytes != layout.scale_bytes ||
      !ViewPlane(expected, layout, expected_n, plane, &view)) {
    return absl::InvalidArgumentError("chunk: the index set is damaged or forged");
  }
  bool nonfinite = false;
  if (layout.value_kind == CodecKind::kBf16) {
    nonfinite = ActiveKernels().largest_magnitude_16(view.codes.data(), count) >= 0x7f80u;
  } else {
    status = CheckScalePlane(layout.value_kind, scales, layout.value_scale_bytes, &nonfinite);
    if (!status.ok()) return status;
  }
  if (nonfinite != ((header.flags & kFlagNonFinite) != 0)) {
    return absl::InvalidArgumentError("chunk: the non-finite flag contradicts the contents");
  }
  return absl::OkStatus();
}

void DecodeSparse(const KernelTable& kernels, absl::Span<const uint8_t> bytes, bool accumulate,
                  float weight, float* out) {
  const ChunkHeader header = ReadHeader(bytes.data());
  const CodecSpec spec = SpecOfHeader(header);
  if (!accumulate) std::fill(out, out + header.n, 0.0f);
  const absl::Span<const uint8_t> plane =
      bytes.subspan(kChunkHeaderBytes + header.scale_bytes, header.code_bytes);
  uint32_t count = 0;
  const bool counted = CountOf(spec, header.n, plane, &count);
  const SparseLayout layout = LayoutOfSparse(spec, header.n, count);
  SparseView view;
  const bool fits = counted && ViewPlane(spec, layout, header.n, plane, &view);
  assert(fits && "DecodeChunk before CheckChunk");
  if (!fits || count == 0) return;
  std::vector<float> kept(PadTo(layout.count, layout.value_block), 0.0f);
  if (accumulate) {
    for (size_t k = 0; k < view.indices.size(); ++k) {
      if (view.indices[k] < header.n) kept[k] = out[view.indices[k]];
    }
  }
  DecodeJob job = {};
  job.scales = bytes.data() + kChunkHeaderBytes;
  job.codes = view.codes.data();
  job.n = static_cast<uint32_t>(kept.size());
  job.block = layout.value_block;
  job.accumulate = accumulate;
  job.weight = weight;
  job.out = kept.data();
  kernels.decode[static_cast<size_t>(layout.value_kind)](job);
  for (size_t k = 0; k < view.indices.size(); ++k) {
    if (view.indices[k] < header.n) out[view.indices[k]] = kept[k];
  }
}

}  // namespace causeway::compression
