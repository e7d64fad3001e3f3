// Error on slices of real data stays within the published table (README of the benches has the
// whole set).
#include <catch2/catch.hpp>

#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

struct Row {
  const char* codec;
  double delta;
  double gradient;
};

// Relative L2 error, one shot. Measured on the slices; ceilings with 3 % of air.
constexpr Row kRows[] = {
    {"bf16", 0.0018, 0.0018},
    {"fp16", 0.0004, 0.0012},
    {"int8", 0.0071, 0.0092},
    {"int4", 0.108, 0.121},
};

TEST_CASE("error on real slices") {
  for (const Row& row : kRows) {
    CodecSpec spec = CodecSpec::Parse(row.codec).value();
    for (bool gradient : {false, true}) {
      std::vector<float> values =
          samples::ReadSlice(gradient ? "gradient_slice.f32" : "delta_slice.f32");
      double error = samples::RelativeL2(
          values, samples::Decode(samples::Encode(spec, values), values.size()));
      CAPTURE(row.codec, gradient, error);
      CHECK(error < (gradient ? row.gradient : row.delta));
    }
  }
}

TEST_CASE("error feedback makes the sum of ten rounds better") {
  std::vector<float> values = samples::ReadSlice("delta_slice.f32");
  const uint32_t n = static_cast<uint32_t>(values.size());
  for (const char* text : {"int8:ef", "int4:ef"}) {
    CodecSpec spec = CodecSpec::Parse(text).value();
    std::vector<uint16_t> residual(n), next(n);
    std::vector<float> truth(n), with(n), without(n);
    std::vector<uint8_t> bytes(EncodedSizeMax(spec, n));
    for (int round = 0; round < 10; ++round) {
      std::vector<float> value = values;
      float factor = 1.0f + 0.13f * static_cast<float>(round % 4);
      for (uint32_t i = 0; i < n; ++i) {
        value[i] *= factor;
        truth[i] += value[i];
      }
      EncodeInput input;
      input.snapshot = value.data();
      input.n = n;
      EncodeStats stats;
      EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats);
      DecodeAccumulate(bytes, 1.0f, without.data());
      input.residual_in = residual.data();
      input.residual_out = next.data();
      EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats);
      DecodeAccumulate(bytes, 1.0f, with.data());
      residual.swap(next);
    }
    CAPTURE(text);
    CHECK(samples::RelativeL2(truth, with) < 0.5 * samples::RelativeL2(truth, without));
  }
}

}  // namespace
}  // namespace causeway::compression
