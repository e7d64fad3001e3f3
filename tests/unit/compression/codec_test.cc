// What the codecs promise: names, sizes, error bounds, residuals, non-finite values, determinism.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "compression/block_math.h"
#include "compression/codec_internal.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

using samples::AllSpecs;
using samples::Decode;
using samples::Encode;

float BlockMax(const std::vector<float>& v, size_t i, uint32_t block) {
  size_t begin = block == 0 ? i : i / block * block;
  size_t end = block == 0 ? i + 1 : std::min(v.size(), begin + block);
  float largest = 0;
  for (size_t k = begin; k < end; ++k) largest = std::max(largest, std::fabs(v[k]));
  return largest;
}

bool BlockNonFinite(const std::vector<float>& v, size_t i, const CodecSpec& spec) {
  const uint32_t block = IsWhole(spec.kind) ? kChunkElements : spec.block;
  size_t begin = block == 0 ? i : i / block * block;
  size_t end = block == 0 ? i + 1 : std::min(v.size(), begin + block);
  const uint32_t limit = NonFiniteBits(spec);
  for (size_t k = begin; k < end; ++k) {
    if (math::AbsBits(v[k]) >= limit) return true;
  }
  return false;
}

TEST_CASE("specs read and write themselves") {
  for (const CodecSpec& spec : AllSpecs()) {
    CHECK(CodecSpec::Parse(spec.ToString()).value() == spec);
  }
  CHECK(CodecSpec::Parse("int4").value().ToString() == "int4:b64");
  CHECK(CodecSpec::Parse("int8:zstd:ef").value().ToString() == "int8:b256:ef:zstd");
  for (const char* bad : {"",
                          "int5",
                          "int4:b63",
                          "int4:b0",
                          "int4:b8192",
                          "int4:b16",
                          "int4:",
                          "int4:bb",
                          "fp32:b64",
                          "topk:k0",
                          "topk:v3",
                          "btopk:k33",
                          "topk:zstd",
                          "int4:k3",
                          "int4:decay900",
                          "bf16:sr",
                          "int4:ef:sr",
                          "int4:b4294967360",
                          "int4:r4",
                          "lowrank:r0",
                          "lowrank:r65",
                          "lowrank:zstd",
                          "lowrank:b64",
                          "lowrank:k4",
                          "lowrank:sr"}) {
    CAPTURE(bad);
    CHECK_FALSE(CodecSpec::Parse(bad).ok());
  }
}

TEST_CASE("encoded sizes are those of the document") {
  CHECK(EncodedSizeMax(CodecSpec::Parse("fp32").value(), kChunkElements) ==
        32 + 4 * kChunkElements);
  CHECK(EncodedSizeMax(CodecSpec::Parse("int8").value(), kChunkElements) == 32 + 2048 + 262144);
  CHECK(EncodedSizeMax(CodecSpec::Parse("int4").value(), kChunkElements) == 32 + 8192 + 131072);
  CHECK(EncodedSizeMax(CodecSpec::Parse("int4:b256").value(), kChunkElements) ==
        32 + 2048 + 131072);
  CHECK(EncodedSizeMax(CodecSpec::Parse("int4").value(), 1) == 32 + 64 + 64);
  CHECK(EncodedSizeMax(CodecSpec::Parse("int4").value(), 0) == 32);
}

TEST_CASE("every codec keeps its error bound on every sample") {
  for (const CodecSpec& spec : AllSpecs()) {
    for (const samples::Sample& sample : samples::HostileSamples()) {
      CAPTURE(spec.ToString(), sample.name);
      std::vector<uint8_t> bytes = Encode(spec, sample.values);
      const uint32_t n = static_cast<uint32_t>(sample.values.size());
      REQUIRE(CheckChunk(spec, n, bytes) == absl::OkStatus());
      std::vector<float> decoded = Decode(bytes, n);
      double bound = Traits(spec.kind).error_bound * (spec.stochastic ? 2 : 1);
      double smallest_step = spec.kind == CodecKind::kFp16 ? 0x1p-25 : 0x1p-100;
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) {
        if (BlockNonFinite(sample.values, i, spec)) continue;
        bool saturates = spec.kind == CodecKind::kFp16 && std::fabs(sample.values[i]) > 65504;
        double error = std::fabs(static_cast<double>(sample.values[i]) - decoded[i]);
        const uint32_t block = IsWhole(spec.kind) ? kChunkElements : spec.block;
        double allowed = bound * BlockMax(sample.values, i, block) + smallest_step;
        if (!saturates && !(error <= allowed)) ++wrong;
        if (saturates && std::fabs(decoded[i]) != 65504) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("non-finite values mark their block, are counted, and leave no residual") {
  std::vector<float> values = samples::Noise(1000, 3);
  values[130] = std::nanf("");
  values[131] = INFINITY;
  for (const CodecSpec& spec : AllSpecs()) {
    if (spec.block > 256 || IsWhole(spec.kind)) continue;
    CAPTURE(spec.ToString());
    std::vector<float> residual(values.size(), 7.0f);
    EncodeInput input;
    input.snapshot = values.data();
    input.n = 1000;
    input.residual_out = residual.data();
    input.residual_dtype = DType::kFp32;
    EncodeStats stats;
    std::vector<uint8_t> bytes(EncodedSizeMax(spec, 1000));
    REQUIRE(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats) == bytes.size());
    CHECK(stats.nonfinite == 2);
    CHECK(stats.first_nonfinite == 130);
    REQUIRE(CheckChunk(spec, 1000, bytes) == absl::OkStatus());
    CHECK(ChunkNonFinite(bytes));
    std::vector<float> decoded = Decode(bytes, 1000);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!BlockNonFinite(values, i, spec)) {
        if (!std::isfinite(decoded[i]) || !std::isfinite(residual[i])) FAIL("poisoned at " << i);
      } else {
        if (std::isfinite(decoded[i]) || residual[i] != 0.0f) FAIL("not marked at " << i);
        if (decoded[i] != decoded[i]) {
          REQUIRE(math::Bits(decoded[i]) == math::kCanonicalNan);
        }
      }
    }
  }
}

TEST_CASE("value plus old residual equals decoded plus new residual") {
  for (const CodecSpec& spec : AllSpecs()) {
    if (spec.stochastic) continue;
    for (DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      CAPTURE(spec.ToString(), static_cast<int>(dtype));
      const uint32_t n = 5000;
      std::vector<float> base = samples::Noise(n, 11, 0.02);
      std::vector<float> moved = samples::Noise(n, 12);
      std::vector<float> old_residual = samples::Noise(n, 13, 1e-4);
      for (uint32_t i = 0; i < n; ++i) moved[i] = base[i] - moved[i];
      std::vector<uint8_t> snapshot(n * DTypeBytes(dtype));
      std::vector<float> seen(n);
      for (uint32_t i = 0; i < n; ++i) {
        if (dtype == DType::kFp32) {
          std::memcpy(&snapshot[4 * i], &moved[i], 4);
          seen[i] = moved[i];
        } else {
          uint16_t h = dtype == DType::kBf16 ? math::ToBf16(moved[i]) : math::ToFp16(moved[i]);
          std::memcpy(&snapshot[2 * i], &h, 2);
          seen[i] = dtype == DType::kBf16 ? math::FromBf16(h) : math::FromFp16(h);
        }
      }
      std::vector<float> new_residual(n);
      EncodeInput input;
      input.base = base.data();
      input.snapshot = snapshot.data();
      input.snapshot_dtype = dtype;
      input.residual_in = old_residual.data();
      input.residual_out = new_residual.data();
      input.residual_dtype = DType::kFp32;
      input.n = n;
      EncodeStats stats;
      std::vector<uint8_t> bytes(EncodedSizeMax(spec, n));
      bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
      CHECK(stats.nonfinite == 0);
      std::vector<float> decoded = Decode(bytes, n);
      size_t wrong = 0;
      for (uint32_t i = 0; i < n; ++i) {
        float value = base[i] - seen[i];
        value = value + old_residual[i];
        if (new_residual[i] != value - decoded[i]) ++wrong;
      }
      CHECK(wrong == 0);

      // The bf16 residual is the fp32 one, rounded.
      std::vector<uint16_t> narrow(n);
      input.residual_in = nullptr;
      input.residual_out = new_residual.data();
      bytes.resize(EncodedSizeMax(spec, n));
      bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
      std::vector<uint8_t> again(EncodedSizeMax(spec, n));
      input.residual_out = narrow.data();
      input.residual_dtype = DType::kBf16;
      again.resize(EncodeChunk(spec, input, absl::MakeSpan(again), &stats));
      CHECK(again == bytes);
      for (uint32_t i = 0; i < n; ++i) {
        if (narrow[i] != math::ToBf16(new_residual[i])) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the same input gives the same bytes, whatever the buffers held") {
  std::vector<float> values = samples::Noise(4999, 21);
  for (const CodecSpec& spec : AllSpecs()) {
    CAPTURE(spec.ToString());
    std::vector<uint8_t> first = Encode(spec, values);
    EncodeInput input;
    input.snapshot = values.data();
    input.n = 4999;
    input.seed = spec.stochastic ? 99 : 0;
    std::vector<uint8_t> second(EncodedSizeMax(spec, input.n), 0xee);
    EncodeStats stats;
    second.resize(EncodeChunk(spec, input, absl::MakeSpan(second), &stats));
    CHECK(first == second);
  }
}

TEST_CASE("accumulating is a multiplication, then an addition") {
  std::vector<float> values = samples::Noise(4999, 31);
  for (const CodecSpec& spec : AllSpecs()) {
    CAPTURE(spec.ToString());
    std::vector<uint8_t> bytes = Encode(spec, values);
    std::vector<float> decoded = Decode(bytes, values.size());
    std::vector<float> acc = samples::Noise(4999, 32);
    std::vector<float> expected = acc;
    for (size_t i = 0; i < acc.size(); ++i) {
      if (IsSparse(spec.kind) && decoded[i] == 0.0f) continue;  // not sent: untouched
      volatile float product = 0.37f * decoded[i];
      expected[i] = expected[i] + product;
    }
    DecodeAccumulate(bytes, 0.37f, acc.data());
    CHECK(std::memcmp(acc.data(), expected.data(), acc.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a constant comes back exactly where the code can hold it") {
  for (const char* text : {"fp32", "bf16", "fp16", "int8", "int4"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    CAPTURE(text);
    // 1.75 x 2^-10 = 7 x 2^-12 : the scale of int4 is exact; the others hold it too.
    std::vector<float> values(640,
                              spec.kind == CodecKind::kInt8 ? 127 * 0x1p-12f : 1.75f * 0x1p-10f);
    CHECK(Decode(Encode(spec, values), values.size()) == values);
  }
}

TEST_CASE("stochastic rounding is unbiased, and its seed decides") {
  for (const char* text : {"int8:sr", "int4:sr"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    CAPTURE(text);
    std::vector<float> values = samples::Noise(256, 41);
    std::vector<double> sum(values.size(), 0.0);
    constexpr int kDraws = 1000;
    std::vector<uint8_t> bytes(EncodedSizeMax(spec, 256));
    EncodeStats stats;
    for (int draw = 0; draw < kDraws; ++draw) {
      EncodeInput input;
      input.snapshot = values.data();
      input.n = 256;
      input.seed =
          static_cast<uint32_t>(draw) * 2654435761u + 12345u;  // the printed seed is `draw`
      EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats);
      std::vector<float> decoded = Decode(bytes, values.size());
      for (size_t i = 0; i < values.size(); ++i) sum[i] += decoded[i];
    }
    // A draw errs by less than one step; its deviation is at most half a step. 5.5 sigma over 256
    // values.
    for (size_t i = 0; i < values.size(); ++i) {
      double step =
          BlockMax(values, i, spec.block) / (spec.kind == CodecKind::kInt8 ? 127 : 7) * 1.008;
      CHECK(std::fabs(sum[i] / kDraws - values[i]) < 5.5 * 0.5 * step / std::sqrt(kDraws));
    }
  }
}

}  // namespace
}  // namespace causeway::compression
