// The committed residual as a whole, for whoever keeps it on disk, and for the endpoint of a run
// that has grown.
#include <algorithm>
#include <cassert>

#include "daemon/endpoint/endpoint.h"
#include "daemon/endpoint/fragment_state.h"

namespace causeway::endpoint {

absl::Span<const std::byte> LocalEndpoint::CommittedResidual(uint32_t fragment) const {
  if (!KeepsResidual()) return {};
  const FragmentState& state = *fragments_.at(fragment);
  const uint64_t first =
      static_cast<uint64_t>(state.committed_half) * layout_->elements() + state.residual_first;
  return {residuals_.data() + ResidualBytes(first), ResidualBytes(record(fragment).elements)};
}

const std::vector<uint64_t>& LocalEndpoint::ResidualWeights(uint32_t fragment) const {
  return fragments_.at(fragment)->residual_weight;
}

absl::Span<std::byte> LocalEndpoint::RestoreResidual(uint32_t fragment,
                                                     absl::Span<const uint64_t> weights) {
  confined_.Check();
  FragmentState& state = *fragments_.at(fragment);
  assert(KeepsResidual() && !state.open && weights.size() == state.chunks);
  state.residual_weight.assign(weights.begin(), weights.end());
  ForgetMomentum(fragment, 0, record(fragment).elements);
  return {Residual(fragment, state.committed_half, 0), ResidualBytes(record(fragment).elements)};
}

void LocalEndpoint::TakeOver(LocalEndpoint& from, uint32_t fragments) {
  confined_.Check();
  assert(options_.residual == from.options_.residual);
  for (uint32_t f = 0; f < fragments; ++f) {
    assert(record(f).elements == from.record(f).elements && !from.open(f));
    for (const int64_t round : from.fragments_.at(f)->held) {
      if (round == kNoRound) continue;
      const absl::Span<const float> value = from.Value(f, round);
      std::copy(value.begin(), value.end(), WritableValue(f, round).begin());
      Publish(f, round);
    }
    if (!KeepsResidual() || !from.HasResidual(f)) continue;
    const absl::Span<const std::byte> residual = from.CommittedResidual(f);
    std::copy(residual.begin(), residual.end(),
              RestoreResidual(f, from.ResidualWeights(f)).begin());
    if (!Corrects()) continue;
    std::copy_n(from.Momentum(f, from.fragments_[f]->committed_half, 0), record(f).elements,
                Momentum(f, fragments_[f]->committed_half, 0));
  }
}

}  // namespace causeway::endpoint
