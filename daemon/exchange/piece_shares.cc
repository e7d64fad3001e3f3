#include "daemon/exchange/piece_shares.h"

#include <algorithm>
#include <cassert>

namespace causeway::exchange {

void PieceSet::Add(const PieceSet& other) {
  if (all()) return;
  if (other.all()) {
    bits_.clear();
    return;
  }
  for (size_t i = 0; i < bits_.size(); ++i) bits_[i] |= other.bits_[i];
}

void PieceShares::Came(uint32_t piece) {
  assert(!places_[piece].here);
  places_[piece] = {true, std::nullopt};
  ++here_;
}

void PieceShares::TakeBack(engine::ClusterId donor) {
  for (Place& place : places_) {
    if (place.asked == donor) place.asked.reset();
  }
}

bool PieceShares::Awaits(engine::ClusterId donor) const {
  return std::any_of(places_.begin(), places_.end(),
                     [donor](const Place& place) { return place.asked == donor; });
}

std::map<engine::ClusterId, PieceSet> PieceShares::Share(engine::ClusterSet donors) {
  std::map<engine::ClusterId, uint32_t> load;
  for (engine::ClusterId donor : donors) load[donor] = 0;
  for (const Place& place : places_) {
    if (place.asked && donors.Contains(*place.asked)) ++load[*place.asked];
  }
  std::map<engine::ClusterId, PieceSet> wanted;
  const auto pieces = static_cast<uint32_t>(places_.size());
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    if (places_[piece].here || places_[piece].asked) continue;
    const auto least = std::min_element(
        load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    ++least->second;
    places_[piece].asked = least->first;
    wanted.try_emplace(least->first, pieces).first->second.Insert(piece);
  }
  return wanted;
}

}  // namespace causeway::exchange
