// One pass over a chunk while it is in cache: decode and accumulate each contribution, scale, hash.
#include "daemon/exchange/reduction.h"

#include <algorithm>
#include <cassert>

#include "compression/codec.h"
#include "compression/vector.h"
#include "daemon/outer/outer_state.h"

namespace causeway::exchange {

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

namespace {

// The checked chunk as the codec wrote it: itself, or unpacked into the workspace.
absl::Span<const uint8_t> Plain(const compression::CodecSpec& codec, uint32_t elements,
                                const memory::SharedBuffer& payload,
                                compression::EntropyWorkspace* workspace) {
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(payload.data()),
                                        payload.size());
  if (!codec.entropy) return bytes;
  const auto plain = compression::OpenChunk(codec, elements, bytes, workspace);
  assert(plain.ok());  // it was opened once when it arrived
  return *plain;
}

}  // namespace

void CombineChunk(const compression::CodecSpec& codec, EntropyPool* entropy,
                  absl::Span<const memory::SharedBuffer> payloads, const Weights& weights,
                  absl::Span<float> out, engine::Hash64* hash, bool* nonfinite) {
  assert(payloads.size() == weights.factors.size());
  std::fill(out.begin(), out.end(), 0.0f);
  const auto accumulate = [&](compression::EntropyWorkspace* workspace) {
    for (size_t i = 0; i < payloads.size(); ++i) {
      compression::DecodeAccumulate(
          Plain(codec, static_cast<uint32_t>(out.size()), payloads[i], workspace),
          weights.factors[i], out.data());
    }
    return true;
  };
  codec.entropy ? entropy->With(accumulate) : accumulate(nullptr);
  compression::ScaleVector(out, weights.scale);
  *hash = compression::ContentHash(absl::Span<const float>(out));
  *nonfinite = compression::FirstNonFinite(out) < out.size();
}

bool Reduction::unchanged() const {
  return std::all_of(order_.contributors.begin(), order_.contributors.end(),
                     [](const engine::Contributor& c) { return c.weight == 0; });
}

std::vector<engine::Hash64> Reduction::hashes() const {
  std::vector<engine::Hash64> out;
  out.reserve(chunks_.size());
  for (const ReducedChunk& chunk : chunks_) out.push_back(chunk.hash);
  return out;
}

engine::Hash256 Reduction::Hash() const { return outer::HashOfHashes(hashes()); }

bool Reduction::SameSet(const engine::Reduce& other) const {
  return order_.round == other.round && order_.lineage == other.lineage &&
         order_.contributors == other.contributors;
}

}  // namespace causeway::exchange
