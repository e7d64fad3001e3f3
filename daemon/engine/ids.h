// The names that the round engine gives to things: clusters, epochs, fragments, rounds, operations.
//
// Plain values without behaviour beyond comparison. Used by the engine, the daemon that drives it
// and the simulator. Nothing here knows about bytes on a wire: proto/ fixes those.
#ifndef CAUSEWAY_DAEMON_ENGINE_IDS_H_
#define CAUSEWAY_DAEMON_ENGINE_IDS_H_

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace causeway::engine {

// Index of a cluster in the run's roster, which is sorted by name: a lower id is a lower name, so
// "in cluster-name order" is "in ascending id". The roster is configuration, equal everywhere.
using ClusterId = uint8_t;
inline constexpr int kClustersMax = 64;

// A set of clusters; iterates in ascending id, which is name order.
class ClusterSet {
 public:
  class Iterator {
   public:
    explicit Iterator(uint64_t rest) : rest_(rest) {}
    ClusterId operator*() const { return static_cast<ClusterId>(std::countr_zero(rest_)); }
    Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return rest_ != other.rest_; }

   private:
    uint64_t rest_;
  };

  constexpr ClusterSet() = default;
  constexpr explicit ClusterSet(uint64_t bits) : bits_(bits) {}
  ClusterSet(std::initializer_list<int> ids) {
    for (int id : ids) Insert(static_cast<ClusterId>(id));
  }
  // The clusters 0 .. count-1.
  static ClusterSet FirstOf(int count) {
    return ClusterSet(count >= kClustersMax ? ~uint64_t{0} : (uint64_t{1} << count) - 1);
  }

  bool Contains(ClusterId id) const { return (bits_ >> id & 1) != 0; }
  bool ContainsAll(ClusterSet other) const { return (other.bits_ & ~bits_) == 0; }
  void Insert(ClusterId id) { bits_ |= uint64_t{1} << id; }
  void Erase(ClusterId id) { bits_ &= ~(uint64_t{1} << id); }
  int Count() const { return std::popcount(bits_); }
  bool Empty() const { return bits_ == 0; }
  uint64_t bits() const { return bits_; }
  Iterator begin() const { return Iterator(bits_); }
  Iterator end() const { return Iterator(0); }
  ClusterSet operator|(ClusterSet other) const { return ClusterSet(bits_ | other.bits_); }
  ClusterSet operator&(ClusterSet other) const { return ClusterSet(bits_ & other.bits_); }
  ClusterSet operator-(ClusterSet other) const { return ClusterSet(bits_ & ~other.bits_); }
  bool operator==(const ClusterSet&) const = default;

 private:
  uint64_t bits_ = 0;
};

// The number of an agreed membership. Each candidate mints its own, so two never collide.
// Counter 0 is "no epoch"; the first record of a run has counter 1 or more.
struct Epoch {
  uint64_t counter = 0;
  ClusterId candidate = 0;
  auto operator<=>(const Epoch&) const = default;
  bool None() const { return counter == 0; }
};

// Names the founding of a run: drawn at random by who founds it. A run that is forgotten everywhere
// and founded anew has the same name, but another founding. 0: not known, as in records from before
// foundings had names; it fits any.
using FoundingId = uint64_t;
inline bool SameFounding(FoundingId a, FoundingId b) { return a == 0 || b == 0 || a == b; }
using Incarnation = uint64_t;  // Of a gateway process: fresh and never reused. 0: not known.
using FragmentId = uint32_t;
using RoundNumber = int64_t;  // 0 is the seeded value; the first exchange makes round 1.
using Attempt = uint32_t;     // Within a round and epoch; a CUT makes the next one.
using Lineage = uint64_t;     // Grows by one with each rollback, the only undoing of commits.
using PlanId = uint64_t;
using Weight = uint64_t;  // Samples or tokens behind a contribution; 0 takes part and adds nothing.
using Hash64 = uint64_t;
using Hash256 = std::array<uint8_t, 32>;  // All zero: unknown or not applicable.
using Time = int64_t;  // Microseconds of a monotonic clock that the caller reads.

inline constexpr uint32_t kFragmentsMax = 1024;
// Numbers of peers and of files above these are refused: no run comes near, and what is computed
// with them cannot overflow.
inline constexpr uint64_t kEpochCounterMax = (uint64_t{1} << 40) - 1;  // plan ids have room for it
inline constexpr RoundNumber kRoundMax = RoundNumber{1} << 40;
inline constexpr Attempt kAttemptMax = 256;  // rounds_cut.cc says why there are few
inline constexpr Time kNever = INT64_MAX;

// One submission of a trainer. `session` is the trainer's own token and survives gateway restarts.
struct OpId {
  uint64_t session = 0;
  uint64_t sequence = 0;
  auto operator<=>(const OpId&) const = default;
  bool None() const { return session == 0 && sequence == 0; }
};

// A committed value of one fragment. Within a lineage a round names one content; the chain hash
// covers everything that led to it, so equal chains are equal bytes.
struct StateId {
  Lineage lineage = 0;
  RoundNumber round = 0;
  Hash256 chain{};
  bool operator==(const StateId&) const = default;
};

inline bool IsZero(const Hash256& hash) { return hash == Hash256{}; }
std::string ToString(const Epoch& epoch);    // "7.2": counter and candidate
std::string ToString(ClusterSet set);        // "{0,2}"
std::string ShortHex(const Hash256& hash);   // first 4 bytes
std::string ToString(const StateId& state);  // "l0 r12 9f3a01c2"

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_IDS_H_
