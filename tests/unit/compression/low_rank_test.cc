// Chunks of factors: what they promise about error, residual, warm start, order of operations and
// hostile bytes. What every codec promises is in codec_test.cc.
#include "compression/low_rank.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/block_math.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

CodecSpec OfRank(uint32_t rank) {
  CodecSpec spec;
  spec.kind = CodecKind::kLowRank;
  spec.rank = static_cast<uint8_t>(rank);
  REQUIRE(ValidateSpec(spec).ok());
  return spec;
}

struct Coded {
  std::vector<uint8_t> bytes;
  std::vector<float> residual;
  std::vector<float> decoded;
  EncodeStats stats;
};

Coded Encode(uint32_t rank, const std::vector<MatrixPiece>& pieces,
             const std::vector<float>& values, std::vector<uint16_t>* warm = nullptr) {
  const CodecSpec spec = OfRank(rank);
  Coded coded;
  coded.residual.resize(values.size());
  EncodeInput input;
  input.snapshot = values.data();
  input.n = static_cast<uint32_t>(values.size());
  input.residual_out = coded.residual.data();
  input.residual_dtype = DType::kFp32;
  input.pieces = pieces;
  if (warm != nullptr) input.warm = warm->data();
  coded.bytes.resize(LowRankSize(rank, pieces));  // exactly: a write beyond is seen
  REQUIRE(EncodeChunk(spec, input, absl::MakeSpan(coded.bytes), &coded.stats) ==
          coded.bytes.size());
  REQUIRE(CheckChunk(spec, input.n, coded.bytes) == absl::OkStatus());
  coded.decoded = samples::Decode(coded.bytes, values.size());
  return coded;
}

// A matrix of exactly this rank, with some noise.
std::vector<float> Matrix(uint32_t rows, uint32_t columns, uint32_t rank, uint64_t seed,
                          double noise) {
  const std::vector<float> left = samples::Noise(rows * rank, seed, 1.0);
  const std::vector<float> right = samples::Noise(columns * rank, seed + 1, 1.0);
  std::vector<float> values = samples::Noise(rows * columns, seed + 2, noise);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t j = 0; j < columns; ++j) {
      for (uint32_t k = 0; k < rank; ++k) {
        values[i * columns + j] += left[i * rank + k] * right[j * rank + k];
      }
    }
  }
  return values;
}

TEST_CASE("a matrix of the rank that is sent comes back to the precision of the factors") {
  for (const auto& [rows, columns] : {std::pair{70u, 50u}, {33u, 200u}, {200u, 33u}, {64u, 8u}}) {
    CAPTURE(rows, columns);
    std::vector<float> values = Matrix(rows, columns, 3, 5, 0);
    const std::vector<MatrixPiece> whole = {{rows * columns, columns}};
    CHECK(samples::RelativeL2(values, Encode(3, whole, values).decoded) < 0.006);
    values.resize(values.size() - columns / 2);  // zeros in the last row: one rank more
    const std::vector<MatrixPiece> cut = {{static_cast<uint32_t>(values.size()), columns}};
    CHECK(samples::RelativeL2(values, Encode(4, cut, values).decoded) < 0.006);
  }
}

TEST_CASE("pieces are coded each by itself") {
  const std::vector<float> first = Matrix(40, 30, 2, 3, 0);
  const std::vector<float> second = Matrix(25, 64, 2, 9, 0);
  std::vector<float> values = first;
  const std::vector<float> plain = samples::Noise(77, 4);
  values.insert(values.end(), plain.begin(), plain.end());
  values.insert(values.end(), second.begin(), second.end());
  const Coded coded = Encode(2, {{1200, 30}, {77, 0}, {1600, 64}}, values);
  CHECK(samples::RelativeL2(values, coded.decoded) < 0.006);
  for (size_t i = 0; i < plain.size(); ++i) {
    CHECK(coded.decoded[1200 + i] == math::FromBf16(math::ToBf16(plain[i])));
  }
  CHECK(coded.bytes.size() < 32 + 64 + 8 + 3 * 8 + 2 * (70 * 2 + 77 + 89 * 2));
}

TEST_CASE("residual and decoded value add up, and the warm start follows") {
  const std::vector<MatrixPiece> pieces = {{96 * 64, 64}};
  std::vector<uint16_t> warm(WarmElements(4, pieces));
  const std::vector<float> values = Matrix(96, 64, 6, 11, 0.3);
  std::vector<double> errors;
  for (int round = 0; round < 6; ++round) {
    const Coded coded = Encode(4, pieces, values, &warm);
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(coded.residual[i] == values[i] - coded.decoded[i]);
    }
    errors.push_back(samples::RelativeL2(values, coded.decoded));
  }
  CAPTURE(errors);
  CHECK(errors[5] < errors[0]);
  // Without it every round is the first again.
  CHECK(samples::RelativeL2(values, Encode(4, pieces, values).decoded) == errors[0]);
}

TEST_CASE("error feedback sends in the end what one round leaves out") {
  const std::vector<MatrixPiece> pieces = {{48 * 40, 40}};
  const std::vector<float> values = samples::Noise(48 * 40, 3, 1.0);  // of full rank
  std::vector<uint16_t> warm(WarmElements(2, pieces));
  std::vector<float> residual(values.size()), sum(values.size()), truth(values.size());
  constexpr int kRounds = 60;
  double first = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> with(values);
    for (size_t i = 0; i < with.size(); ++i) with[i] += residual[i];
    const Coded coded = Encode(2, pieces, with, &warm);
    residual = coded.residual;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += coded.decoded[i];
      truth[i] += values[i];
    }
    if (round == 0) first = samples::RelativeL2(truth, sum);
  }
  CAPTURE(first);
  CHECK(first > 0.7);
  CHECK(samples::RelativeL2(truth, sum) < 0.4 * first);
}

TEST_CASE("sums run over the rank in order, each step rounded") {
  const Coded coded = Encode(2, {{99, 9}}, samples::Noise(99, 8, 1.0));  // 11 x 9
  std::vector<uint16_t> factors(40);
  std::memcpy(factors.data(), coded.bytes.data() + kChunkHeaderBytes + 16, 80);
  std::vector<float> acc = samples::Noise(99, 9, 1.0);
  const std::vector<float> before = acc;
  DecodeAccumulate(coded.bytes, -1.7f, acc.data());
  for (uint32_t i = 0; i < 11; ++i) {
    for (uint32_t j = 0; j < 9; ++j) {
      volatile float d = 0.0f;
      for (uint32_t k = 0; k < 2; ++k) {
        volatile float product =
            math::FromBf16(factors[i * 2 + k]) * math::FromBf16(factors[22 + k * 9 + j]);
        d = d + product;
      }
      volatile float weighted = -1.7f * d;
      CHECK(acc[i * 9 + j] == before[i * 9 + j] + weighted);
    }
  }
}

TEST_CASE("zero, constant and non-finite matrices") {
  const std::vector<MatrixPiece> pieces = {{600, 30}, {50, 0}};
  std::vector<uint16_t> warm(WarmElements(4, pieces));
  REQUIRE(warm.size() == 120);
  const Coded first = Encode(4, pieces, samples::Noise(650, 6), &warm);
  const std::vector<uint16_t> started = warm;
  const Coded zero = Encode(4, pieces, std::vector<float>(650, 0.0f), &warm);
  CHECK(zero.decoded == std::vector<float>(650, 0.0f));
  CHECK(warm == started);  // or every later round would send zeros
  const std::vector<float> same(650, 0.125f);
  CHECK(samples::RelativeL2(same, Encode(4, pieces, same, &warm).decoded) < 0.006);
  for (float bad : {INFINITY, -INFINITY, NAN, 3e38f, -0x1p100f}) {
    std::vector<float> values = samples::Noise(650, 4);
    values[123] = bad;
    const std::vector<uint16_t> kept = warm;
    const Coded coded = Encode(4, pieces, values, &warm);
    CHECK(coded.stats.nonfinite == 1);
    CHECK(coded.stats.first_nonfinite == 123);
    CHECK(ChunkNonFinite(coded.bytes));
    CHECK(warm == kept);
    for (uint32_t i = 0; i < 650; ++i) {
      if (i < 600) {
        REQUIRE(math::Bits(coded.decoded[i]) == math::kCanonicalNan);
        REQUIRE(coded.residual[i] == 0.0f);
      } else {
        REQUIRE(std::isfinite(coded.decoded[i]));
      }
    }
  }
}

TEST_CASE("values just below the limit stay finite, whatever was sent before") {
  const std::vector<MatrixPiece> pieces = {{4096, 2048}};  // the longest sums
  std::vector<uint16_t> warm(WarmElements(1, pieces));
  const std::vector<float> values(4096, 0x1.fffffep99f);
  for (int round = 0; round < 3; ++round) {
    const Coded coded = Encode(1, pieces, values, &warm);
    CHECK(samples::RelativeL2(values, coded.decoded) < 0.006);
  }
  std::fill(warm.begin(), warm.end(), 0x0001);  // the smallest number there is
  CHECK(samples::RelativeL2(values, Encode(1, pieces, values, &warm).decoded) < 0.006);
}

TEST_CASE("a piece is a matrix where factors are smaller, else folded, else plain") {
  CHECK(PieceOf(512 * 192, 192, 4) == MatrixPiece{512 * 192, 192});
  CHECK(PieceOf(4096, 4096, 4) == MatrixPiece{4096, 64});  // one row
  CHECK(PieceOf(1 << 18, 0, 4) == MatrixPiece{1 << 18, 512});
  CHECK(PieceOf(300, 0, 4) == MatrixPiece{300, 0});
  CHECK(PieceOf(300, 20, 64) == MatrixPiece{300, 0});  // rank 15 of 15 x 20
  CHECK(PieceOf(1, 1, 1) == MatrixPiece{1, 0});
}

TEST_CASE("pieces that no chunk has are refused") {
  const auto legal = [](const std::vector<MatrixPiece>& pieces, uint32_t n) {
    return LegalPieces(pieces, n, 2);
  };
  CHECK(legal({{100, 10}}, 100));
  CHECK(legal({{60, 10}, {40, 0}}, 100));
  CHECK_FALSE(legal({{100, 10}}, 101));
  CHECK_FALSE(legal({{101, 10}}, 100));
  CHECK_FALSE(legal({{60, 10}, {41, 0}}, 100));
  CHECK_FALSE(legal({{60, 10}, {0xffffffd8u, 0}, {80, 0}}, 100));
  CHECK_FALSE(legal({{100, 0}, {0, 0}}, 100));
  CHECK_FALSE(legal({{100, 101}}, 100));
  CHECK_FALSE(legal({{100, 100}}, 100));                 // factors larger than the values
  CHECK_FALSE(legal({{25, 0}, {25, 0}, {50, 0}}, 100));  // too many
}

// A good chunk with one field or factor changed and the checksum repaired.
TEST_CASE("forged chunks are refused") {
  const CodecSpec spec = OfRank(2);
  const Coded good = Encode(2, {{300, 20}, {30, 0}}, samples::Noise(330, 1));
  const auto refused = [&](size_t at, absl::Span<const uint8_t> bytes) {
    std::vector<uint8_t> bad = good.bytes;
    std::copy(bytes.begin(), bytes.end(), bad.begin() + static_cast<ptrdiff_t>(at));
    ChunkHeader header = ReadHeader(bad.data());
    header.crc32c = ChunkCrc32c(bad);
    WriteHeader(header, bad.data());
    return absl::IsInvalidArgument(CheckChunk(spec, 330, bad));
  };
  const auto word_refused = [&](size_t at, uint32_t word) {
    uint8_t bytes[4];
    std::memcpy(bytes, &word, 4);
    return refused(at, bytes);
  };
  const auto half_refused = [&](size_t at, uint16_t half) {
    uint8_t bytes[2];
    std::memcpy(bytes, &half, 2);
    return refused(at, bytes);
  };
  CHECK(word_refused(24, 3));  // the rank
  CHECK(word_refused(32, 1));  // pieces
  CHECK(word_refused(32, 0xffffffffu));
  CHECK(word_refused(36, 1));    // reserved
  CHECK(word_refused(40, 299));  // elements
  CHECK(word_refused(44, 0));    // columns
  CHECK(word_refused(44, 0x80000000u));
  CHECK(word_refused(good.bytes.size() - 4, 1));  // padding
  const size_t factors = 32 + 8 + 16;
  for (uint16_t bad : {0x7f80, 0xff80, 0x7fc1, 0xffc0, 0x7fc0, 0x3f81, 0xbf81}) {
    CHECK(half_refused(factors, bad));
  }
  const size_t right = factors + 2 * 15 * 2;
  CHECK_FALSE(half_refused(right, 0x7b80));
  CHECK(half_refused(right, 0x7b81));
  CHECK(half_refused(right, 0x7fc0));
  for (size_t size = 0; size < good.bytes.size(); ++size) {
    CHECK_FALSE(CheckChunk(spec, 330, absl::MakeConstSpan(good.bytes.data(), size)).ok());
  }
}

TEST_CASE("a real gradient's matrix: rank buys accuracy") {
  std::vector<float> values = samples::ReadSlice("gradient_slice.f32");
  values.resize(208 * 192);  // of te.weight, the first tensor of the dump
  const std::vector<MatrixPiece> pieces = {{208 * 192, 192}};
  double last = 1;
  for (uint32_t rank : {4u, 16u, 48u}) {
    const double error = samples::RelativeL2(values, Encode(rank, pieces, values).decoded);
    CAPTURE(rank, error);
    CHECK(error < 0.75 * last);
    last = error;
  }
}

}  // namespace
}  // namespace causeway::compression
