// Sparse codecs: sizes, which values are kept, residuals, index sets honest and forged.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "compression/block_math.h"
#include "compression/codec_internal.h"
#include "compression/index_set.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

TEST_CASE("64 of 4096 with 2-bit values: indices and codes are 146.3 times smaller than fp32") {
  CodecSpec spec = CodecSpec::Parse("btopk:k64:v2").value();
  std::vector<uint8_t> bytes = samples::Encode(spec, samples::Noise(kChunkElements, 1));
  ChunkHeader header = ReadHeader(bytes.data());
  CHECK(header.code_bytes == 64u * 64 * (12 + 2) / 8);
  CHECK(std::round(10.0 * 4 * kChunkElements / header.code_bytes) == 1463);
  CHECK(header.scale_bytes == 64u * 4);
}

TEST_CASE("the largest values are kept, ties by position") {
  std::vector<float> values(1000, 0.5f);
  values[700] = -3;
  values[3] = 2;
  values[999] = -0.75f;
  CodecSpec spec = CodecSpec::Parse("topk:k50").value();  // 0.5 % of 1000: five values
  std::vector<float> decoded = samples::Decode(samples::Encode(spec, values), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    bool kept = i == 700 || i == 3 || i == 999 || i == 0 || i == 1;
    CHECK((decoded[i] != 0) == kept);
  }
  CHECK(std::fabs(decoded[700] + 3) < 0.25);
}

TEST_CASE("what is not sent stays in the residual; non-finite values do not") {
  for (const char* text : {"topk:ef", "topk:v2:ef", "btopk:ef", "btopk:b256:k32:v4:ef"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    std::vector<float> values = samples::Noise(5000, 4);
    values[77] = std::nanf("");
    values[4321] = INFINITY;
    std::vector<float> residual(values.size());
    EncodeInput input;
    input.snapshot = values.data();
    input.n = 5000;
    input.residual_out = residual.data();
    input.residual_dtype = DType::kFp32;
    EncodeStats stats;
    std::vector<uint8_t> bytes(EncodedSizeMax(spec, 5000));
    bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
    CAPTURE(text);
    CHECK(stats.nonfinite == 2);
    CHECK(stats.first_nonfinite == 77);
    REQUIRE(CheckChunk(spec, 5000, bytes) == absl::OkStatus());
    CHECK(ChunkNonFinite(bytes));
    std::vector<float> decoded = samples::Decode(bytes, values.size());
    CHECK(std::isnan(decoded[77]));
    size_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(residual[i])) ++wrong;
      if (decoded[i] == 0 && std::isfinite(values[i]) && residual[i] != values[i]) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("patch sends what bf16 parameters would show, and keeps the rest") {
  const uint32_t n = 4000;
  std::vector<float> base = samples::Noise(n, 6, 0.02);
  std::vector<float> delta = samples::Noise(n, 7, 2e-5);
  std::vector<float> snapshot(n), residual(n);
  for (uint32_t i = 0; i < n; ++i) snapshot[i] = base[i] - delta[i];
  CodecSpec spec = CodecSpec::Parse("patch:ef").value();
  EncodeInput input;
  input.base = base.data();
  input.snapshot = snapshot.data();
  input.residual_out = residual.data();
  input.residual_dtype = DType::kFp32;
  input.n = n;
  EncodeStats stats;
  std::vector<uint8_t> bytes(EncodedSizeMax(spec, n));
  bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
  REQUIRE(CheckChunk(spec, n, bytes) == absl::OkStatus());
  std::vector<float> decoded = samples::Decode(bytes, n);
  size_t sent = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const float value = base[i] - snapshot[i];
    const bool visible = math::ToBf16(base[i] - value) != math::ToBf16(base[i]);
    REQUIRE((decoded[i] != 0) == visible);
    REQUIRE(residual[i] == value - decoded[i]);
    sent += visible;
  }
  CHECK(sent > n / 20);
  CHECK(sent < n);
  CHECK(bytes.size() < 2 * n);  // smaller than bf16
}

TEST_CASE("a decayed residual is multiplied before it is added") {
  CodecSpec spec = CodecSpec::Parse("btopk:ef:decay950").value();
  std::vector<float> values(4096, 0.0f);
  std::vector<float> old_residual = samples::Noise(4096, 5);
  std::vector<float> residual(4096);
  EncodeInput input;
  input.snapshot = values.data();
  input.n = 4096;
  input.residual_in = old_residual.data();
  input.residual_out = residual.data();
  input.residual_dtype = DType::kFp32;
  EncodeStats stats;
  std::vector<uint8_t> bytes(EncodedSizeMax(spec, 4096));
  bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
  std::vector<float> decoded = samples::Decode(bytes, 4096);
  for (size_t i = 0; i < values.size(); ++i) {
    if (decoded[i] == 0) REQUIRE(residual[i] == 0.95f * old_residual[i]);
  }
}

std::vector<uint32_t> RandomIndices(uint32_t limit, double density, uint64_t seed) {
  samples::Random random(seed);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < limit; ++i) {
    if (random.Uniform() < density) indices.push_back(i);
  }
  return indices;
}

TEST_CASE("index sets come back, in the smaller of two forms") {
  for (uint32_t limit : {1u, 7u, 8u, 1000u, 65536u, 65537u, 262144u}) {
    for (double density : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      std::vector<uint32_t> indices = RandomIndices(limit, density, limit + 1);
      std::vector<uint8_t> bytes;
      IndexMode mode = WriteIndices(indices, limit, &bytes);
      CAPTURE(limit, density);
      CHECK(bytes.size() <= (limit + 7) / 8);
      std::vector<uint32_t> back(indices.size());
      REQUIRE(ReadIndices(mode, bytes, limit, absl::MakeSpan(back)));
      CHECK(back == indices);
      std::vector<uint32_t> more(indices.size() + 1);
      CHECK_FALSE(ReadIndices(mode, bytes, limit, absl::MakeSpan(more)));
      bytes.push_back(0);
      CHECK_FALSE(ReadIndices(mode, bytes, limit, absl::MakeSpan(back)));
    }
  }
  std::vector<uint32_t> sparse = RandomIndices(kChunkElements, 0.01, 9);
  std::vector<uint8_t> bytes;
  CHECK(WriteIndices(sparse, kChunkElements, &bytes) == IndexMode::kRice);
  const double bits = 8.0 * static_cast<double>(bytes.size()) / static_cast<double>(sparse.size());
  CAPTURE(bits);
  CHECK(bits < 8.2);  // the entropy of random positions at 1 % is 8.08 bits
}

TEST_CASE("damaged index sets are refused or give increasing indices in range") {
  samples::Random random(10);
  std::vector<uint32_t> indices = RandomIndices(100000, 0.02, 11);
  std::vector<uint8_t> good;
  IndexMode mode = WriteIndices(indices, 100000, &good);
  std::vector<uint32_t> back(indices.size());
  for (int k = 0; k < 2000; ++k) {
    std::vector<uint8_t> bad = good;
    bad[random.Next() % (k % 2 == 0 ? 16 : bad.size())] = static_cast<uint8_t>(random.Next());
    if (k % 5 == 0) bad.resize(random.Next() % bad.size());
    if (!ReadIndices(mode, bad, 100000, absl::MakeSpan(back))) continue;
    CHECK(std::is_sorted(back.begin(), back.end(), std::less_equal<uint32_t>()));
    CHECK(back.back() < 100000);
  }
  uint8_t twelve[6];
  std::vector<uint32_t> four = {0, 4, 4, 9};
  WriteTwelveBits(four, twelve);
  CHECK_FALSE(ReadIndices(IndexMode::kTwelveBits, twelve, 4096, absl::MakeSpan(four)));
}

}  // namespace
}  // namespace causeway::compression
