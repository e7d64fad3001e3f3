// Chunks of factors: see low_rank.h. Projections are fp32 kernels; only the few numbers of P are
// made orthonormal in binary64. Everything runs in a fixed order, so that the bytes are the same
// everywhere.
#include "compression/low_rank.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/block_math.h"
#include "compression/codec_internal.h"
#include "compression/low_rank_basis.h"
#include "compression/vector.h"

namespace causeway::compression {
namespace {

constexpr uint32_t kPreambleBytes = 8;   // number of pieces, zero
constexpr uint32_t kPieceBytes = 8;      // elements, columns
constexpr uint32_t kFoldedMin = 4096;    // fewer values that are no matrix are sent as they are
constexpr uint16_t kLeftMax = 0x3f80u;   // bf16 1: no entry of a unit vector is larger
constexpr uint16_t kRightMax = 0x7b80u;  // bf16 2^120: 64 products of it and 1 sum to 2^126
constexpr uint32_t kNoiseSeed = 0x10c4a4c5u;

uint32_t RowsOf(const MatrixPiece& piece) {
  return (piece.elements + piece.columns - 1) / piece.columns;
}

MatrixJob JobOf(const MatrixPiece& piece, uint32_t rank) {
  const uint32_t rows = RowsOf(piece);
  return {rows, piece.columns, std::min({rank, rows, piece.columns})};
}

uint64_t Factors(const MatrixPiece& piece, uint32_t rank) {
  if (piece.columns == 0) return piece.elements;
  const MatrixJob job = JobOf(piece, rank);
  return (uint64_t{job.rows} + job.columns) * job.rank;
}

bool Pays(const MatrixPiece& piece, uint32_t rank) {
  return piece.columns != 0 && Factors(piece, rank) < piece.elements;
}

// The largest power of two whose square is at most this.
uint32_t NearlyRoot(uint32_t elements) {
  uint32_t columns = 1;
  while (4 * columns * columns <= elements) columns *= 2;
  return columns;
}

std::vector<MatrixPiece> PiecesOf(const EncodeInput& input, uint32_t rank) {
  if (!input.pieces.empty()) return {input.pieces.begin(), input.pieces.end()};
  if (input.n == 0) return {};
  return {PieceOf(input.n, 0, rank)};
}

uint64_t PlaneBytes(uint32_t rank, absl::Span<const MatrixPiece> pieces) {
  uint64_t bytes = kPreambleBytes + pieces.size() * kPieceBytes;
  for (const MatrixPiece& piece : pieces) bytes += Factors(piece, rank) * sizeof(uint16_t);
  return bytes;
}

uint64_t Padded(uint64_t bytes) {
  return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
}

// ---------------------------------------------------------------- one matrix

// Whole rows where they lie, and a last one that is cut short in a buffer of its own, completed
// with zeros.
class Rows {
 public:
  Rows(const KernelTable& kernels, const MatrixJob& job, float* values, uint32_t elements)
      : kernels_(kernels), whole_(job), last_(job), values_(values) {
    whole_.rows = elements / job.columns;
    last_.rows = job.rows - whole_.rows;
    rest_ = elements - whole_.rows * job.columns;
    if (last_.rows == 0) return;
    tail_.resize(job.columns, 0.0f);
    std::copy_n(Tail(), rest_, tail_.begin());
  }

  void Project(const float* right, float* left) const {
    kernels_.project(whole_, values_, right, left);
    if (last_.rows != 0) kernels_.project(last_, tail_.data(), right, Behind(left));
  }
  void ProjectBack(const float* left, float* right) const {
    kernels_.project_back(whole_, values_, left, right);
    if (last_.rows != 0) kernels_.project_back(last_, tail_.data(), Behind(left), right);
  }
  void Product(const float* left, const float* right, bool accumulate, float weight) {
    kernels_.product(whole_, left, right, accumulate, weight, values_);
    if (last_.rows == 0) return;
    kernels_.product(last_, Behind(left), right, accumulate, weight, tail_.data());
    std::copy_n(tail_.begin(), rest_, Tail());
  }

 private:
  template <typename T>
  T* Behind(T* left) const {
    return left + size_t{whole_.rows} * whole_.rank;
  }
  float* Tail() const { return values_ + size_t{whole_.rows} * whole_.columns; }

  const KernelTable& kernels_;
  MatrixJob whole_;
  MatrixJob last_;
  float* const values_;
  uint32_t rest_ = 0;
  std::vector<float> tail_;
};

// A power of two brings the largest to [1, 2): sums of the next step then stay in range.
void Normalise(float* row, uint32_t n, uint32_t largest_bits) {
  const uint32_t exponent = std::clamp(largest_bits >> 23, 1u, 253u);
  const float factor = math::FromBits((254 - exponent) << 23);
  for (uint32_t j = 0; j < n; ++j) row[j] *= factor;
}

// Where the steps begin: each column of Q from the last round's, or from noise. Whether any is
// noise.
bool Begin(const KernelTable& kernels, const MatrixJob& job, const uint16_t* warm,
           std::vector<float>* right) {
  bool noise = false;
  for (uint32_t k = 0; k < job.rank; ++k) {
    float* row = right->data() + size_t{k} * job.columns;
    uint32_t largest = 0;
    if (warm != nullptr) {
      kernels.from_bf16(warm + size_t{k} * job.columns, job.columns, row);
      largest = kernels.largest_magnitude_32(reinterpret_cast<const uint8_t*>(row), job.columns);
    }
    if (largest != 0) {
      Normalise(row, job.columns, largest);
      continue;
    }
    noise = true;
    for (uint32_t j = 0; j < job.columns; ++j) {
      const uint32_t word = math::Dither(kNoiseSeed, k * job.columns + j) >> 8;
      row[j] = static_cast<float>(static_cast<int32_t>(word) - (1 << 23)) * 0x1p-23f;
    }
  }
  return noise;
}

// Rounds to bf16 what the receivers will have.
void Round(const KernelTable& kernels, std::vector<float>* x, uint16_t* stored) {
  kernels.to_bf16(x->data(), x->size(), stored);
  kernels.from_bf16(stored, x->size(), x->data());
}

// Factors of finite values; the values become what they lose.
void EncodeMatrix(const KernelTable& kernels, const MatrixJob& job, Rows* rows, uint16_t* warm,
                  uint16_t* factors) {
  std::vector<float> left(size_t{job.rows} * job.rank);
  std::vector<float> right(size_t{job.columns} * job.rank);
  uint16_t* const right_factors = factors + left.size();
  const bool noise = Begin(kernels, job, warm, &right);
  for (int step = noise ? 0 : 1; step < 2; ++step) {
    if (step == 1 && noise) {
      for (uint32_t k = 0; k < job.rank; ++k) {
        float* row = right.data() + size_t{k} * job.columns;
        const auto* words = reinterpret_cast<const uint8_t*>(row);
        Normalise(row, job.columns, kernels.largest_magnitude_32(words, job.columns));
      }
    }
    rows->Project(right.data(), left.data());
    Orthonormalise(job.rows, job.rank, absl::MakeSpan(left));
    if (step == 1) Round(kernels, &left, factors);
    std::fill(right.begin(), right.end(), 0.0f);
    rows->ProjectBack(left.data(), right.data());
  }
  Round(kernels, &right, right_factors);
  rows->Product(left.data(), right.data(), true, -1.0f);
  // A column of zeros would stay one for ever: what has died out starts again from its former self.
  for (uint32_t k = 0; warm != nullptr && k < job.rank; ++k) {
    const uint16_t* row = right_factors + size_t{k} * job.columns;
    const auto* words = reinterpret_cast<const uint8_t*>(row);
    if (kernels.largest_magnitude_16(words, job.columns) == 0) continue;
    std::copy_n(row, job.columns, warm + size_t{k} * job.columns);
  }
}

// Values become what they lose. Whether they are finite.
bool EncodePiece(const KernelTable& kernels, const MatrixPiece& piece, uint32_t rank, float* values,
                 uint16_t* warm, uint16_t* factors) {
  const uint32_t largest =
      kernels.largest_magnitude_32(reinterpret_cast<const uint8_t*>(values), piece.elements);
  const size_t count = Factors(piece, rank);
  if (largest >= kLowRankHugeBits) {
    std::fill_n(factors, count, math::kCanonicalNanBf16);
    std::fill_n(values, piece.elements, 0.0f);
    return false;
  }
  if (largest < math::kTinyBits) {
    std::fill_n(factors, count, uint16_t{0});
    return true;
  }
  if (piece.columns == 0) {
    kernels.to_bf16(values, piece.elements, factors);
    for (uint32_t i = 0; i < piece.elements; ++i) values[i] -= math::FromBf16(factors[i]);
    return true;
  }
  const MatrixJob job = JobOf(piece, rank);
  Rows rows(kernels, job, values, piece.elements);
  EncodeMatrix(kernels, job, &rows, warm, factors);
  return true;
}

size_t PlacePieces(absl::Span<const MatrixPiece> pieces, uint8_t* plane) {
  const uint32_t head[2] = {static_cast<uint32_t>(pieces.size()), 0};
  std::memcpy(plane, head, kPreambleBytes);
  size_t used = kPreambleBytes;
  for (const MatrixPiece& piece : pieces) {
    const uint32_t fields[2] = {piece.elements, piece.columns};
    std::memcpy(plane + used, fields, kPieceBytes);
    used += kPieceBytes;
  }
  return used;
}

// Values become what they lose. Whether all are finite.
bool PlaceFactors(const KernelTable& kernels, uint32_t rank, absl::Span<const MatrixPiece> pieces,
                  uint16_t* warm, float* values, uint8_t* plane) {
  bool finite = true;
  std::vector<uint16_t> factors;
  for (const MatrixPiece& piece : pieces) {
    factors.resize(Factors(piece, rank));
    finite = EncodePiece(kernels, piece, rank, values, warm, factors.data()) && finite;
    std::memcpy(plane, factors.data(), factors.size() * sizeof(uint16_t));
    plane += factors.size() * sizeof(uint16_t);
    values += piece.elements;
    if (warm != nullptr) warm += WarmElements(rank, absl::MakeConstSpan(&piece, 1));
  }
  return finite;
}

void CountHuge(absl::Span<const float> values, EncodeStats* stats) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (math::AbsBits(values[i]) < kLowRankHugeBits) continue;
    ++stats->nonfinite;
    stats->first_nonfinite = std::min(stats->first_nonfinite, static_cast<uint32_t>(i));
  }
}

// ---------------------------------------------------------------- chunks

// A chunk's pieces and where their factors lie. Of hostile bytes until Read says that they are
// legal.
struct View {
  std::vector<MatrixPiece> pieces;
  absl::Span<const uint8_t> factors;

  bool Read(uint32_t rank, uint32_t n, absl::Span<const uint8_t> plane) {
    if (n == 0) return plane.empty();
    uint32_t head[2] = {};
    if (plane.size() < kPreambleBytes) return false;
    std::memcpy(head, plane.data(), kPreambleBytes);
    if (head[0] > PiecesMax(n) || head[1] != 0 ||
        plane.size() < kPreambleBytes + size_t{head[0]} * kPieceBytes) {
      return false;
    }
    pieces.resize(head[0]);
    for (size_t i = 0; i < pieces.size(); ++i) {
      uint32_t fields[2];
      std::memcpy(fields, plane.data() + kPreambleBytes + i * kPieceBytes, kPieceBytes);
      pieces[i] = {fields[0], fields[1]};
    }
    if (!LegalPieces(pieces, n, rank)) return false;
    const uint64_t used = PlaneBytes(rank, pieces);
    if (plane.size() != Padded(used) || !PaddingIsZero(plane, used)) return false;
    factors = plane.subspan(kPreambleBytes + pieces.size() * kPieceBytes);
    return true;
  }
};

// Whether `count` factors are such as an encoder makes; all NaN where values were not finite.
bool CheckFactors(const uint8_t* bytes, size_t count, size_t left, bool* nonfinite) {
  size_t nans = 0;
  for (size_t i = 0; i < count; ++i) {
    uint16_t factor;
    std::memcpy(&factor, bytes + i * sizeof(factor), sizeof(factor));
    if ((factor & 0x7fffu) <= (i < left ? kLeftMax : kRightMax)) continue;
    if (factor != math::kCanonicalNanBf16) return false;
    ++nans;
  }
  *nonfinite = *nonfinite || nans != 0;
  return nans == 0 || nans == count;
}

}  // namespace

MatrixPiece PieceOf(uint32_t elements, uint32_t columns, uint32_t rank) {
  for (const MatrixPiece& piece :
       {MatrixPiece{elements, columns},
        MatrixPiece{elements, elements < kFoldedMin ? 0 : NearlyRoot(elements)}}) {
    if (Pays(piece, rank)) return piece;
  }
  return {elements, 0};
}

bool LegalPieces(absl::Span<const MatrixPiece> pieces, uint32_t n, uint32_t rank) {
  uint64_t elements = 0;
  for (const MatrixPiece& piece : pieces) {
    if (piece.elements == 0 || piece.elements > n - elements) return false;
    if (piece.columns > piece.elements || (piece.columns != 0 && !Pays(piece, rank))) return false;
    elements += piece.elements;
  }
  return elements == n && pieces.size() <= PiecesMax(n);
}

size_t WarmElements(uint32_t rank, absl::Span<const MatrixPiece> pieces) {
  size_t elements = 0;
  for (const MatrixPiece& piece : pieces) {
    if (piece.columns != 0) elements += size_t{piece.columns} * JobOf(piece, rank).rank;
  }
  return elements;
}

size_t LowRankSize(uint32_t rank, absl::Span<const MatrixPiece> pieces) {
  return kChunkHeaderBytes + (pieces.empty() ? 0 : Padded(PlaneBytes(rank, pieces)));
}

size_t LowRankSizeMax(uint32_t n) {
  if (n == 0) return kChunkHeaderBytes;
  return kChunkHeaderBytes + Padded(kPreambleBytes + uint64_t{PiecesMax(n)} * kPieceBytes +
                                    uint64_t{n} * sizeof(uint16_t));
}

double LowRankBits(uint32_t rank) {
  const MatrixPiece square = {kChunkElements, NearlyRoot(kChunkElements)};
  return 16.0 * static_cast<double>(Factors(square, rank)) / kChunkElements;
}

size_t EncodeLowRank(const KernelTable& kernels, const CodecSpec& spec, const EncodeInput& input,
                     absl::Span<uint8_t> out, EncodeStats* stats) {
  const std::vector<MatrixPiece> pieces = PiecesOf(input, spec.rank);
  assert(LegalPieces(pieces, input.n, spec.rank));
  uint8_t* const plane = out.data() + kChunkHeaderBytes;
  bool finite = true;
  size_t used = 0;
  if (input.n > 0) {
    std::vector<float> values(input.n);
    kernels.gather(compression::JobOf(spec, input, 0), input.n, values.data());
    used = PlacePieces(pieces, plane);
    finite = PlaceFactors(kernels, spec.rank, pieces, input.warm, values.data(), plane + used);
    used = PlaneBytes(spec.rank, pieces);
    if (input.residual_out != nullptr) {
      CastFromFp32(values.data(), input.n, input.residual_dtype, input.residual_out);
    }
    if (!finite) {
      kernels.gather(compression::JobOf(spec, input, 0), input.n, values.data());
      CountHuge(values, stats);
    }
  }
  ChunkHeader header = HeaderOf(spec, input, !finite);
  header.code_bytes = static_cast<uint32_t>(Padded(used));
  std::memset(plane + used, 0, header.code_bytes - used);
  return FinishChunk(header, out);
}

absl::Status CheckLowRank(const CodecSpec& expected, uint32_t expected_n,
                          absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kChunkHeaderBytes || bytes.size() > LowRankSizeMax(expected_n)) {
    return absl::InvalidArgumentError(absl::StrCat("chunk: ", bytes.size(), " bytes where ",
                                                   expected_n, " elements of ", expected.ToString(),
                                                   " take at most ", LowRankSizeMax(expected_n)));
  }
  const ChunkHeader header = ReadHeader(bytes.data());
  absl::Status status = CheckHeader(expected, expected_n, header);
  if (!status.ok()) return status;
  if (header.scale_bytes != 0 || bytes.size() - kChunkHeaderBytes != header.code_bytes) {
    return absl::InvalidArgumentError("chunk: plane sizes do not fit the chunk");
  }
  if (header.crc32c != ChunkCrc32c(bytes)) {
    return absl::DataLossError("chunk: crc32c differs; bytes were damaged on the way");
  }
  View view;
  if (!view.Read(expected.rank, expected_n, bytes.subspan(kChunkHeaderBytes))) {
    return absl::InvalidArgumentError("chunk: its pieces are none that an encoder makes");
  }
  bool nonfinite = false;
  size_t at = 0;
  for (const MatrixPiece& piece : view.pieces) {
    const size_t count = Factors(piece, expected.rank);
    size_t left = 0;
    if (piece.columns != 0) {
      const MatrixJob job = JobOf(piece, expected.rank);
      left = size_t{job.rows} * job.rank;
    }
    if (!CheckFactors(view.factors.data() + at * sizeof(uint16_t), count, left, &nonfinite)) {
      return absl::InvalidArgumentError("chunk: its factors are none that an encoder makes");
    }
    at += count;
  }
  if (nonfinite != ((header.flags & kFlagNonFinite) != 0)) {
    return absl::InvalidArgumentError("chunk: the non-finite flag contradicts the contents");
  }
  return absl::OkStatus();
}

void DecodeLowRank(const KernelTable& kernels, absl::Span<const uint8_t> bytes, bool accumulate,
                   float weight, float* out) {
  const ChunkHeader header = ReadHeader(bytes.data());
  const uint32_t rank = header.seed;
  View view;
  const bool fits = view.Read(rank, header.n, bytes.subspan(kChunkHeaderBytes, header.code_bytes));
  assert(fits && "DecodeChunk before CheckChunk");
  if (!fits) return;
  std::vector<uint16_t> stored;
  std::vector<float> factors;
  size_t at = 0;
  for (const MatrixPiece& piece : view.pieces) {
    const size_t count = Factors(piece, rank);
    const uint8_t* codes = view.factors.data() + at * sizeof(uint16_t);
    if (piece.columns == 0) {
      DecodeJob job = {};
      job.codes = codes;
      job.n = piece.elements;
      job.block = 1;
      job.accumulate = accumulate;
      job.weight = weight;
      job.out = out;
      kernels.decode[static_cast<size_t>(CodecKind::kBf16)](job);
    } else {
      const MatrixJob job = JobOf(piece, rank);
      stored.resize(count);
      factors.resize(count);
      std::memcpy(stored.data(), codes, count * sizeof(uint16_t));
      kernels.from_bf16(stored.data(), count, factors.data());
      Rows(kernels, job, out, piece.elements)
          .Product(factors.data(), factors.data() + size_t{job.rows} * job.rank, accumulate,
                   weight);
    }
    out += piece.elements;
    at += count;
  }
}

}  // namespace causeway::compression
