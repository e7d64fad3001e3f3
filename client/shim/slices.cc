#include "client/shim/slices.h"

#include <algorithm>
#include <string>

#include "client/shim/sealed_memfd.h"

namespace causeway::client {
namespace {

Status CheckSlice(const cw_slice& slice, const Schema& schema, uint64_t& count) {
  if (slice.tensor >= schema.tensors().size()) {
    return Status(CW_ARGUMENT, "slice of tensor " + std::to_string(slice.tensor) + ", but only " +
                                   std::to_string(schema.tensors().size()) + " were joined");
  }
  const Tensor& tensor = schema.tensors()[slice.tensor];
  if (slice.first > tensor.elements) {
    return TensorFailure(CW_ARGUMENT, tensor.name, "the slice begins beyond its end");
  }
  count = slice.count == CW_WHOLE ? tensor.elements - slice.first : slice.count;
  if (count > tensor.elements - slice.first) {
    return TensorFailure(CW_ARGUMENT, tensor.name, "the slice ends beyond its end");
  }
  if (slice.memory > CW_MEMORY_CUDA || slice.zero[0] != 0 || slice.zero[1] != 0) {
    return TensorFailure(CW_ARGUMENT, tensor.name, "unknown memory");
  }
  if (slice.cast != nullptr && slice.cast_dtype > CW_FP16) {
    return TensorFailure(CW_ARGUMENT, tensor.name, "unknown cast_dtype");
  }
  if (count > 0 && slice.data == nullptr && slice.out == nullptr) {
    return TensorFailure(CW_ARGUMENT, tensor.name, "the slice has no memory");
  }
  return Status();
}

// The fragment's first tensor that ends after `element`, as an index into Fragment::tensors.
size_t TensorAfter(const Layout& layout, uint32_t fragment, uint64_t element) {
  const std::vector<uint32_t>& tensors = layout.fragments()[fragment].tensors;
  auto ends_before = [&](uint32_t tensor, uint64_t position) {
    const Placement& place = layout.placements()[tensor];
    return place.first_element + place.elements <= position;
  };
  return std::lower_bound(tensors.begin(), tensors.end(), element, ends_before) - tensors.begin();
}

// The tensor that has elements in [begin, end), or null: only padding lies there.
const Tensor* TensorBetween(const Schema& schema, const Layout& layout, uint32_t fragment,
                            uint64_t begin, uint64_t end) {
  const std::vector<uint32_t>& tensors = layout.fragments()[fragment].tensors;
  const size_t i = TensorAfter(layout, fragment, begin);
  if (i == tensors.size() || layout.placements()[tensors[i]].first_element >= end) return nullptr;
  return &schema.tensors()[tensors[i]];
}

// The parts of one fragment, [from, to), in order.
Status CheckFragment(const Schema& schema, const Layout& layout, uint32_t fragment,
                     const Part* from, const Part* to, Coverage coverage) {
  uint64_t reached = 0;
  auto gap = [&](uint64_t begin, uint64_t end) {
    if (coverage == Coverage::kAny || begin >= end) return Status();
    const Tensor* missed = TensorBetween(schema, layout, fragment, begin, end);
    if (missed == nullptr) return Status();
    return TensorFailure(
        CW_ARGUMENT, missed->name,
        "the slices of fragment " + std::to_string(fragment) + " leave some of its elements out");
  };
  for (const Part* part = from; part != to; ++part) {
    if (part->first < reached) {
      return TensorFailure(CW_ARGUMENT, schema.tensors()[part->slice->tensor].name,
                           "two slices cover the same elements");
    }
    if (Status status = gap(reached, part->first); !status.ok()) return status;
    reached = part->first + part->count;
  }
  if (coverage != Coverage::kWhole) return Status();
  return gap(reached, layout.fragments()[fragment].elements);
}

}  // namespace

Status PlaceSlices(const Schema& schema, const Layout& layout, int64_t fragment,
                   const cw_slice* slices, uint32_t count, Coverage coverage,
                   std::vector<Part>& parts) {
  parts.clear();
  if (count > local::kSlicesMax) return Status(CW_ARGUMENT, "too many slices");
  if (count > 0 && slices == nullptr) return Status(CW_ARGUMENT, "slices is NULL");
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t elements = 0;
    if (Status status = CheckSlice(slices[i], schema, elements); !status.ok()) return status;
    const Tensor& tensor = schema.tensors()[slices[i].tensor];
    const Placement& place = layout.placements()[slices[i].tensor];
    if (fragment >= 0 && place.fragment != static_cast<uint64_t>(fragment)) {
      return TensorFailure(CW_ARGUMENT, tensor.name,
                           "belongs to fragment " + std::to_string(place.fragment) + ", not " +
                               std::to_string(fragment));
    }
    if (tensor.alias_of >= 0 || elements == 0) continue;
    parts.push_back({&slices[i], place.fragment, place.first_element + slices[i].first, elements});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.fragment != b.fragment ? a.fragment < b.fragment : a.first < b.first;
  });
  const uint32_t first = fragment >= 0 ? static_cast<uint32_t>(fragment) : 0;
  const uint32_t last =
      fragment >= 0 ? first : static_cast<uint32_t>(layout.fragments().size()) - 1;
  const Part* const end = parts.data() + parts.size();
  const Part* from = parts.data();
  for (uint32_t f = first; f <= last; ++f) {
    const Part* to = from;
    while (to != end && to->fragment == f) ++to;
    if (Status status = CheckFragment(schema, layout, f, from, to, coverage); !status.ok()) {
      return status;
    }
    from = to;
  }
  return Status();
}

std::vector<Range> RangesOf(const std::vector<Part>& parts) {
  std::vector<Range> ranges;
  for (const Part& part : parts) {
    if (!ranges.empty() && ranges.back().fragment == part.fragment &&
        ranges.back().first + ranges.back().count == part.first) {
      ranges.back().count += part.count;
    } else {
      ranges.push_back({part.fragment, part.first, part.count});
    }
  }
  return ranges;
}

Status WriteRanges(const std::vector<Range>& ranges, Descriptor& memfd) {
  std::vector<local::SliceRecord> records;
  for (const Range& range : ranges)
    records.push_back({range.first, range.count, range.fragment, 0});
  return SealedMemfd("causeway slices", records.data(), records.size() * sizeof(local::SliceRecord),
                     memfd);
}

}  // namespace causeway::client
