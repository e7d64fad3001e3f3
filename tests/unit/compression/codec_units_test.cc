// Every instruction-set unit produces the bytes of the generic one, over hostile and real inputs.
#include <catch2/catch.hpp>
#include <cstring>

#include "compression/codec_internal.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

struct Encoded {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> residual;
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

// What the sender holds beside its values.
enum class Sender {
  kPlain,
  kDelta,        // base and bf16 residual, at addresses that let stores go past the caches
  kDeltaAstray,  // the same at other addresses
  kExact,        // base and fp32 residual
};

Encoded RunUnit(const KernelTable& unit, const CodecSpec& spec, const std::vector<float>& values,
                Sender sender) {
  Encoded result;
  const uint32_t n = static_cast<uint32_t>(values.size());
  std::vector<float> base = samples::Noise(n, 77);
  std::vector<uint16_t> residual_in(2 * n);
  for (uint32_t i = 0; i < n; ++i) residual_in[i] = static_cast<uint16_t>(0x3000u + i % 512);
  EncodeInput input;
  input.snapshot = values.data();
  input.n = n;
  input.seed = spec.stochastic ? 5 : 0;
  input.residual_dtype = sender == Sender::kExact ? DType::kFp32 : DType::kBf16;
  const size_t residual_bytes = n * DTypeBytes(input.residual_dtype);
  std::vector<uint8_t> room(residual_bytes + 128);
  uint8_t* residual = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  if (sender == Sender::kDeltaAstray) residual += 32;
  if (sender != Sender::kPlain) {
    input.base = base.data();
    input.residual_in = residual_in.data();
    input.residual_out = residual;
  }
  EncodeStats stats;
  result.bytes.resize(EncodedSizeMax(spec, n));
  result.bytes.resize(EncodeChunkWith(unit, spec, input, absl::MakeSpan(result.bytes), &stats));
  if (sender != Sender::kPlain) result.residual.assign(residual, residual + residual_bytes);
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
        for (Sender sender :
             {Sender::kPlain, Sender::kDelta, Sender::kDeltaAstray, Sender::kExact}) {
          if (sender != Sender::kDelta && sample.values.size() > 100000) continue;  // time
          CAPTURE(unit->name, sample.name, spec.ToString(), static_cast<int>(sender));
          CHECK(RunUnit(*unit, spec, sample.values, sender) ==
                RunUnit(reference, spec, sample.values, sender));
        }
      }
    }
  }
}

}  // namespace
}  // namespace causeway::compression
