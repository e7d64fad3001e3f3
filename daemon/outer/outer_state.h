// The outer state of a run on this gateway: momentum per fragment, and the hash that names
// parameters and momentum together. The parameters themselves lie in the endpoint's values memory
// and are passed in.
//
// Threads: StepChunk, HashChunk and CopyChunk may run concurrently for distinct chunks; everything
// else belongs to the owner's thread while no such call of the fragment is in flight.
// Memory: 4 bytes a parameter with momentum, charged to the account given; 8 bytes a chunk for
// hashes, as much for norms.
//
// State hash of a fragment: SHA-256 over its chunk hashes and then the rule's words, as
// little-endian u64. Chunk hash: ContentHash(values), and with momentum ContentHash(values) * p +
// ContentHash(momentum), p = 9e3779b97f4a7c15, modulo 2^64. Words: what a gap-aware rule remembers
// beside its vectors (bits of last_norm, bits of mean_norm, norms); other rules have none.
#ifndef CAUSEWAY_DAEMON_OUTER_OUTER_STATE_H_
#define CAUSEWAY_DAEMON_OUTER_OUTER_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/engine/ids.h"
#include "daemon/memory/budget.h"
#include "daemon/outer/rule.h"

namespace causeway::outer {

// Of one chunk of a state; empty momentum: the rule has none.
engine::Hash64 ChunkHash(absl::Span<const float> values, absl::Span<const float> momentum);
// A rule's words (see above); whoever receives some drops what is beyond the bound.
inline constexpr size_t kRuleWordsMax = 8;
// INVALID_ARGUMENT: no history of this rule has these words.
absl::Status CheckWords(const Rule& rule, absl::Span<const engine::Hash64> words);

struct FragmentShape {
  uint64_t elements = 0;
  RuleSpec rule;
};

class OuterState {
 public:
  // RESOURCE_EXHAUSTED when the momentum does not fit the account.
  static absl::StatusOr<std::unique_ptr<OuterState>> Create(
      const std::vector<FragmentShape>& fragments, uint32_t chunk_elements,
      std::shared_ptr<memory::Account> account);

  const Rule& rule(uint32_t fragment) const { return *fragments_.at(fragment).rule; }

  // Before the StepChunk of a round's chunks, and after the last of them.
  void BeginRound(uint32_t fragment, int64_t round);
  void EndRound(uint32_t fragment);

  // next = rule(previous, mean), momentum moves with it; remembers the chunk's hash. Spans are the
  // chunk's part of the fragment.
  void StepChunk(uint32_t fragment, uint32_t chunk, absl::Span<const float> previous,
                 absl::Span<const float> mean, absl::Span<float> next);
  // A round without contributors: next = previous (zeros without outer state).
  void CopyChunk(uint32_t fragment, uint32_t chunk, absl::Span<const float> previous,
                 absl::Span<float> next);
  // Remembers the hash of values that came from elsewhere (a seed, another gateway).
  void HashChunk(uint32_t fragment, uint32_t chunk, absl::Span<const float> values);

  // The rule's words; empty where it has none. They move beside the momentum. SetWords: the status
  // of CheckWords, and nothing changes where it is not Ok.
  std::vector<engine::Hash64> Words(uint32_t fragment) const;
  absl::Status SetWords(uint32_t fragment, absl::Span<const engine::Hash64> words);

  // Empty without momentum.
  absl::Span<float> Momentum(uint32_t fragment, uint32_t chunk);
  // The first `fragments` fragments become as they are in `from`, which has the same.
  void TakeOver(const OuterState& from, uint32_t fragments);
  // As before the first round: momentum zero, nothing remembered.
  void Reset(uint32_t fragment);

  // Of the values last stepped, copied or hashed; all chunks must have been.
  engine::Hash256 StateHash(uint32_t fragment) const;

 private:
  struct Fragment {
    uint64_t elements = 0;
    std::unique_ptr<Rule> rule;
    std::vector<float> momentum;
    std::vector<engine::Hash64> hashes;
    RoundFactors factors;               // of the round being stepped
    std::vector<double> squared_norms;  // of the round's steps by chunk; empty: not measured
    StepHistory history;
  };

  OuterState() = default;
  void Remember(Fragment& fragment, uint32_t chunk, absl::Span<const float> values);
  absl::Span<float> Momentum(Fragment& fragment, uint32_t chunk);

  uint32_t chunk_elements_ = 0;
  std::vector<Fragment> fragments_;
  memory::Charge charge_;
};

}  // namespace causeway::outer

#endif  // CAUSEWAY_DAEMON_OUTER_OUTER_STATE_H_
