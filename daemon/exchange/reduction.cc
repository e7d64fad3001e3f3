// See reduction.h.
#include "daemon/exchange/reduction.h"

#include <algorithm>

#include "daemon/digest/digest.h"

namespace causeway::exchange {

double Reduction::TotalWeight() const {
  double total = 0;
  for (const engine::Contributor& c : order_.contributors) total += static_cast<double>(c.weight);
  return total;
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

engine::Hash256 Reduction::Hash() const { return digest::HashOfHashes(hashes()); }

bool Reduction::SameWork(const Reduction& other) const {
  return order_.round == other.order_.round && order_.lineage == other.order_.lineage &&
         order_.contributors == other.order_.contributors && *plan_.owners == *other.plan_.owners;
}

void Reduction::TakeOwned(Reduction& other) {
  for (uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (Combines(chunk) && other.finished(chunk)) Finish(chunk, std::move(other.chunks_[chunk]));
  }
}

}  // namespace causeway::exchange
