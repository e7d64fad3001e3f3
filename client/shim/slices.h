// Checks the slices that a trainer passes: inside their tensors, of this fragment, disjoint,
// complete.
//
// Pure functions. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "client/include/causeway.h"
#include "client/shim/failure.h"
#include "client/shim/layout.h"
#include "client/shim/schema.h"

namespace causeway::client {

inline constexpr uint32_t kSlicesMax = 1u << 20;  // of one call

// A slice, placed: `first` counts elements of its fragment.
struct Part {
  const cw_slice* slice = nullptr;
  uint32_t fragment = 0;
  uint64_t first = 0;
  uint64_t count = 0;
};

enum class Coverage {
  kWhole,       // every element of the fragment's tensors exactly once
  kContiguous,  // one run of elements without a gap (padding between tensors is none)
  kAny,         // disjoint
};

// Parts without the aliases and empty slices, by first element. `fragment` < 0: all fragments, in
// order.
Status PlaceSlices(const Schema& schema, const Layout& layout, int64_t fragment,
                   const cw_slice* slices, uint32_t count, Coverage coverage,
                   std::vector<Part>& parts);

// The run of the fragment's elements that the parts stand for, padding up to the next tensor
// included; whole fragments begin at 0 and end with the fragment.
void RunOf(const Layout& layout, uint32_t fragment, const std::vector<Part>& parts, uint64_t& first,
           uint64_t& count);

}  // namespace causeway::client
