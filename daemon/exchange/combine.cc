// See combine.h.
#include "daemon/exchange/combine.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "compression/vector.h"

namespace causeway::exchange {
namespace {

absl::Span<float> MeanOf(ReducedChunk* chunk) {
  return {reinterpret_cast<float*>(chunk->mean.data()), chunk->mean.size() / sizeof(float)};
}

}  // namespace

Weights WeightsOf(const std::vector<engine::Contributor>& contributors) {
  Weights out;
  if (contributors.empty()) return out;
  double total = 0;
  bool equal = true;
  for (const engine::Contributor& c : contributors) {
    total += static_cast<double>(c.weight);
    equal = equal && c.weight == contributors.front().weight;
  }
  for (const engine::Contributor& c : contributors) {
    out.factors.push_back(equal ? 1.0f : static_cast<float>(static_cast<double>(c.weight)));
  }
  const double divisor = equal ? static_cast<double>(contributors.size()) : total;
  out.scale = static_cast<float>(1.0 / divisor);
  return out;
}

std::optional<BadPart> CombineChunk(EntropyPool* entropy, absl::Span<const EncodedPart> parts,
                                    const Weights& weights, ReducedChunk* out) {
  assert(parts.size() == weights.factors.size());
  const absl::Span<float> mean = MeanOf(out);
  std::fill(mean.begin(), mean.end(), 0.0f);
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::Status good =
        Open(entropy, parts[i], static_cast<uint32_t>(mean.size()),
             [&](absl::Span<const uint8_t> plain) {
               compression::DecodeAccumulate(plain, weights.factors[i], mean.data());
             });
    if (!good.ok()) return BadPart{i, good};
  }
  compression::ScaleVector(mean, weights.scale);
  return std::nullopt;
}

std::optional<BadPart> CombineSenders(EntropyPool* entropy, absl::Span<const EncodedPart> parts,
                                      const Weights& weights, ReducedChunk* out) {
  assert(parts.size() == weights.factors.size());
  const absl::Span<float> mean = MeanOf(out);
  std::fill(mean.begin(), mean.end(), 0.0f);
  std::vector<float> values(mean.size());
  std::vector<float> total(mean.size(), 0.0f);
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::Status good = Open(
        entropy, parts[i], static_cast<uint32_t>(mean.size()),
        [&](absl::Span<const uint8_t> plain) { compression::DecodeChunk(plain, values.data()); });
    if (!good.ok()) return BadPart{i, good};
    const float weight = weights.factors[i];
    for (size_t k = 0; k < mean.size(); ++k) {
      if (values[k] == 0.0f) continue;
      const float added = weight * values[k];
      mean[k] += added;
      total[k] += weight;
    }
  }
  for (size_t k = 0; k < mean.size(); ++k) {
    if (total[k] > 0.0f) mean[k] /= total[k];
  }
  compression::ScaleVector(mean, 1.0f);  // every NaN the canonical one
  return std::nullopt;
}

void EncodeResult(EntropyPool* entropy, ResultEncoding encoding, ReducedChunk* out) {
  const absl::Span<float> mean = MeanOf(out);
  compression::EncodeInput input;
  input.snapshot = mean.data();
  input.n = static_cast<uint32_t>(mean.size());
  input.seed = encoding.seed;
  input.pieces = encoding.pieces;
  input.residual_in = encoding.residual_in.data();
  input.residual_out = encoding.residual_out.data();
  auto* bytes = reinterpret_cast<uint8_t*>(encoding.bytes.data());
  compression::EncodeStats stats;
  encoding.bytes.Resize(
      compression::EncodeChunk(encoding.codec, input, {bytes, encoding.bytes.size()}, &stats));
  compression::DecodeChunk({bytes, encoding.bytes.size()}, mean.data());
  if (encoding.codec.entropy) PackIfSmaller(entropy, &encoding.bytes, &encoding.packed);
  out->result = memory::SharedBuffer(std::move(encoding.bytes));
  if (encoding.residual_out.data() != nullptr) {
    out->residual = memory::SharedBuffer(std::move(encoding.residual_out));
  }
}

std::optional<BadPart> DecodeResult(EntropyPool* entropy, const EncodedPart& part,
                                    ReducedChunk* out) {
  const absl::Span<float> mean = MeanOf(out);
  const absl::Status good =
      Open(entropy, part, static_cast<uint32_t>(mean.size()),
           [&](absl::Span<const uint8_t> plain) { compression::DecodeChunk(plain, mean.data()); });
  if (!good.ok()) return BadPart{0, good};
  return std::nullopt;
}

void Seal(ReducedChunk* out) {
  const absl::Span<const float> mean = MeanOf(out);
  out->hash = compression::ContentHash(mean);
  out->nonfinite = compression::FirstNonFinite(mean) < mean.size();
}

}  // namespace causeway::exchange
