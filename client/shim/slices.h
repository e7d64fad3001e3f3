// Checks the slices that a trainer passes: inside their tensors, of this fragment, disjoint,
// complete.
//
// Pure functions. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "client/include/causeway.h"
#include "client/shim/descriptor.h"
#include "client/shim/failure.h"
#include "client/shim/layout.h"
#include "client/shim/schema.h"
#include "proto/local_protocol.h"

namespace causeway::client {

// A slice, placed: `first` counts elements of its fragment.
struct Part {
  const cw_slice* slice = nullptr;
  uint32_t fragment = 0;
  uint64_t first = 0;
  uint64_t count = 0;
};

enum class Coverage {
  kWhole,  // every element of the fragment's tensors exactly once
  kAny,    // disjoint
};

// Parts without the aliases and empty slices, by first element. `fragment` < 0: all fragments, in
// order.
Status PlaceSlices(const Schema& schema, const Layout& layout, int64_t fragment,
                   const cw_slice* slices, uint32_t count, Coverage coverage,
                   std::vector<Part>& parts);

// A run of a fragment's elements.
struct Range {
  uint32_t fragment = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  bool operator==(const Range&) const = default;
};

// The runs that placed parts cover, neighbours joined.
std::vector<Range> RangesOf(const std::vector<Part>& parts);

// A fresh memfd with one SliceRecord a range, sealed against any change.
Status WriteRanges(const std::vector<Range>& ranges, Descriptor& memfd);

}  // namespace causeway::client
