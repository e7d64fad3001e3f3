// Which pieces of a state are here, and which donor was asked for each of the others.
//
// A piece is asked of one donor at a time: equal shares, so that what donors send competes as
// little as may be with the rounds on any one's line. What a donor did not send before it went is
// shared among the rest.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_PIECE_SHARES_H_
#define CAUSEWAY_DAEMON_EXCHANGE_PIECE_SHARES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/engine/ids.h"

namespace causeway::exchange {

// One bit a piece, the lowest first; empty: all. As it goes over the wire.
class PieceSet {
 public:
  PieceSet() = default;
  explicit PieceSet(uint32_t pieces) : bits_((pieces + 7) / 8) {}
  explicit PieceSet(std::vector<uint8_t> bits) : bits_(std::move(bits)) {}

  bool all() const { return bits_.empty(); }
  bool Fits(uint32_t pieces) const { return all() || bits_.size() == (pieces + 7) / 8; }
  bool Contains(uint32_t piece) const {
    return all() || ((bits_[piece / 8] >> (piece % 8)) & 1) != 0;
  }
  void Insert(uint32_t piece) { bits_[piece / 8] |= static_cast<uint8_t>(1u << (piece % 8)); }
  // Both are of as many pieces.
  void Add(const PieceSet& other);
  const std::vector<uint8_t>& bits() const { return bits_; }
  bool operator==(const PieceSet&) const = default;

 private:
  std::vector<uint8_t> bits_;
};

class PieceShares {
 public:
  explicit PieceShares(uint32_t pieces) : places_(pieces) {}

  bool Has(uint32_t piece) const { return places_[piece].here; }
  bool Complete() const { return here_ == places_.size(); }
  void Came(uint32_t piece);
  // What was asked of it and has not come is to be asked again.
  void TakeBack(engine::ClusterId donor);
  bool Awaits(engine::ClusterId donor) const;
  // Shares what nobody was asked for among these, who are not empty; what each is to be asked for.
  std::map<engine::ClusterId, PieceSet> Share(engine::ClusterSet donors);

 private:
  struct Place {
    bool here = false;
    std::optional<engine::ClusterId> asked;
  };
  std::vector<Place> places_;
  uint32_t here_ = 0;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_PIECE_SHARES_H_
