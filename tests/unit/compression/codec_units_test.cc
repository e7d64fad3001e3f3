// Every instruction-set unit produces the bytes of the generic one, over hostile and real inputs.
#include <catch2/catch.hpp>
#include <cstring>

#include "compression/codec_internal.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

struct Encoded {
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> residual;
  std::vector<float> decoded;
  std::vector<float> accumulated;
  uint64_t nonfinite = 0;

  bool operator==(const Encoded& other) const {
    auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() &&
             (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    };
    return bytes == other.bytes && residual == other.residual && same(decoded, other.decoded) &&
           same(accumulated, other.accumulated) && nonfinite == other.nonfinite;
  }
};

Encoded RunUnit(const KernelTable& unit, const CodecSpec& spec, const std::vector<float>& values,
                bool with_base) {
  Encoded result;
  const uint32_t n = static_cast<uint32_t>(values.size());
  std::vector<float> base = samples::Noise(n, 77);
  std::vector<uint16_t> residual_in(n);
  for (uint32_t i = 0; i < n; ++i) residual_in[i] = static_cast<uint16_t>(0x3000u + i % 512);
  EncodeInput input;
  input.snapshot = values.data();
  input.n = n;
  input.seed = spec.stochastic ? 5 : 0;
  if (with_base) {
    result.residual.assign(n, 0);
    input.base = base.data();
    input.residual_in = residual_in.data();
    input.residual_out = result.residual.data();
  }
  EncodeStats stats;
  result.bytes.resize(EncodedSizeMax(spec, n));
  result.bytes.resize(EncodeChunkWith(unit, spec, input, absl::MakeSpan(result.bytes), &stats));
  result.nonfinite = stats.nonfinite;
  result.decoded.resize(n);
  DecodeChunkWith(unit, result.bytes, result.decoded.data());
  result.accumulated = values;  // hostile accumulators, too
  DecodeAccumulateWith(unit, result.bytes, -1.7f, result.accumulated.data());
  return result;
}

std::vector<samples::Sample> AllSamples() {
  std::vector<samples::Sample> all = samples::HostileSamples();
  all.push_back({"delta", samples::ReadSlice("delta_slice.f32")});
  all.push_back({"gradient", samples::ReadSlice("gradient_slice.f32")});
  all.push_back({"whole chunk", samples::Noise(kChunkElements, 1)});
  all.push_back({"chunk less one", samples::Noise(kChunkElements - 1, 2)});
  return all;
}

TEST_CASE("all units encode, decode and accumulate to the same bytes") {
  const KernelTable& reference = *KernelsFor(Isa::kGeneric);
  for (Isa isa : kIsas) {
    const KernelTable* unit = KernelsFor(isa);
    if (unit == nullptr || unit == &reference) continue;
    for (const samples::Sample& sample : AllSamples()) {
      for (const CodecSpec& spec : samples::AllSpecs()) {
        for (bool with_base : {false, true}) {
          if (!with_base && sample.values.size() > 100000) continue;  // time
          CAPTURE(unit->name, sample.name, spec.ToString(), with_base);
          CHECK(RunUnit(*unit, spec, sample.values, with_base) ==
                RunUnit(reference, spec, sample.values, with_base));
        }
      }
    }
  }
}

}  // namespace
}  // namespace causeway::compression
