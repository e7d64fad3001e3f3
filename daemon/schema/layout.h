// Where each tensor of a schema lies: in which fragment, at which element, and where the fragments
// lie in the snapshot and values memory. A pure function of (schema, fragments), so equal on every
// cluster.
//
// Rules: tensors are grouped by (group, dtype), parameters first, then buffers, each by dtype id.
// The parameters of all dtypes share `fragments` fragments in proportion to their elements (one at
// least for each dtype); within a dtype a fragment is a run of whole tensors in schema order, cut
// so that the largest is as small as possible. Buffers of a dtype are one fragment. Every tensor
// starts on a kTensorAlignElements boundary; what lies between is padding, which is zero and stays
// zero. An alias has its target's placement; an empty tensor takes no room. A fragment has at least
// one alignment unit, so at least one chunk. Each stage of the schema has fragments of its own,
// after those of the stages before it and about as large as the first one's: what is placed never
// moves when a run grows. Immutable; any thread may read.
#ifndef CAUSEWAY_DAEMON_SCHEMA_LAYOUT_H_
#define CAUSEWAY_DAEMON_SCHEMA_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/schema/schema.h"
#include "proto/local_protocol.h"

namespace causeway::schema {

// compression::kChunkElements, named here so that a schema needs no codec; tests compare them.
inline constexpr uint32_t kLayoutChunkElements = 1u << 18;
inline constexpr uint64_t kPageBytes = 4096;  // fragments' areas start on such a boundary

class Layout {
 public:
  // InvalidArgument: fragments == 0, or the result needs more than kFragmentsMax. Where there are
  // fewer tensors than `fragments`, fewer are made: see parameter_fragments() and note().
  static absl::StatusOr<Layout> Build(const Schema& schema, uint32_t fragments);

  const std::vector<local::FragmentRecord>& fragments() const { return fragments_; }
  const std::vector<local::PlacementRecord>& placements() const {
    return placements_;
  }                                                                      // by tensor
  // Of the first stage; they are the first ones.
  uint32_t parameter_fragments() const { return parameter_fragments_; }
  // How many fragments the stages up to and with `stage` have; and to which a fragment belongs.
  uint32_t FragmentsUpTo(uint32_t stage) const { return stage_ends_.at(stage); }
  uint32_t StageOf(uint32_t fragment) const;
  uint64_t snapshot_bytes() const { return snapshot_bytes_; }
  uint64_t values_bytes() const { return values_bytes_; }
  uint64_t elements() const { return elements_; }  // of all fragments, padding included

  // Says that fewer fragments than asked for were made, and why; empty otherwise.
  const std::string& note() const { return note_; }

  // Elements of chunk `chunk` of a fragment: kLayoutChunkElements, fewer in the last one.
  uint32_t ChunkElements(uint32_t fragment, uint32_t chunk) const;

  // The tensor that holds an element of a fragment (never an alias); nullopt in padding.
  std::optional<uint32_t> TensorAt(uint32_t fragment, uint64_t element) const;

  // The first element at or after `element` that belongs to a tensor; nullopt: only padding
  // follows.
  std::optional<uint64_t> NextOccupied(uint32_t fragment, uint64_t element) const;

  // Calls visit(tensor, first_element, elements) for the fragment's non-empty tensors, ascending.
  template <typename Visit>
  void ForEachTensor(uint32_t fragment, Visit visit) const {
    for (const Occupant& occupant : occupants_.at(fragment)) {
      visit(occupant.tensor, occupant.first_element, occupant.elements);
    }
  }

  // What the layout memfd holds: FragmentRecord[fragments], then PlacementRecord[tensors].
  std::vector<uint8_t> Bytes() const;

 private:
  struct Occupant {
    uint64_t first_element;
    uint64_t elements;
    uint32_t tensor;
  };

  Layout() = default;
  void Append(const Schema& schema, absl::Span<const uint32_t> tensors);
  void AppendStage(const Schema& schema, uint32_t stage, uint32_t fragments);
  void PlaceAliases(const Schema& schema);

  std::vector<local::FragmentRecord> fragments_;
  std::vector<local::PlacementRecord> placements_;
  std::vector<std::vector<Occupant>> occupants_;  // by fragment, ascending, non-empty tensors only
  std::vector<uint32_t> stage_ends_;  // by stage: the index of the first fragment after it
  uint32_t parameter_fragments_ = 0;
  uint64_t snapshot_bytes_ = 0;
  uint64_t values_bytes_ = 0;
  uint64_t elements_ = 0;
  std::string note_;
};

// Cuts `weights` (in order) into exactly `parts` runs, none empty, so that the heaviest is as light
// as possible; returns the index at which each run ends. Needs 1 <= parts <= weights.size().
std::vector<size_t> CutBalanced(absl::Span<const uint64_t> weights, size_t parts);

}  // namespace causeway::schema

#endif  // CAUSEWAY_DAEMON_SCHEMA_LAYOUT_H_
