#include "client/shim/layout.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace causeway::client {
namespace {

constexpr uint64_t kAreaAlignment = 64;  // bytes: a cache line; gateways use pages

Status Bad(const std::string& text) { return Status(CW_PROTOCOL, "the gateway's layout: " + text); }

using Area = std::pair<uint64_t, uint64_t>;  // begin and end, bytes

Status AddArea(uint64_t offset, uint64_t bytes, uint64_t limit, std::vector<Area>& areas) {
  if (offset % kAreaAlignment != 0) return Bad("a misaligned area");
  if (offset > limit || bytes > limit - offset) return Bad("an area beyond the end of its memory");
  if (bytes > 0) areas.emplace_back(offset, offset + bytes);
  return Status();
}

Status CheckDisjoint(std::vector<Area>& areas) {
  std::sort(areas.begin(), areas.end());
  for (size_t i = 1; i < areas.size(); ++i) {
    if (areas[i].first < areas[i - 1].second) return Bad("two areas overlap");
  }
  return Status();
}

Status ParseFragments(const uint8_t* bytes, const local::Joined& joined,
                      std::vector<Fragment>& fragments) {
  std::vector<Area> snapshot, values;
  for (uint32_t i = 0; i < joined.fragments; ++i) {
    local::FragmentRecord record;
    std::memcpy(&record, bytes + i * sizeof(record), sizeof(record));
    if (record.zero != 0) return Bad("reserved bytes are not zero");
    if (record.dtype > CW_FP16 || record.group > CW_BUFFER) return Bad("unknown dtype or group");
    if (record.elements > 2 * local::kElementsMax ||
        record.elements % local::kTensorAlignElements != 0) {
      return Bad("a fragment's elements are out of range or misaligned");
    }
    Status status = AddArea(record.snapshot_offset, record.elements * BytesOf(record.dtype),
                            joined.snapshot_bytes, snapshot);
    for (uint64_t offset : record.values_offset) {
      if (!status.ok()) return status;
      status = AddArea(offset, record.elements * sizeof(float), joined.values_bytes, values);
    }
    if (!status.ok()) return status;
    Fragment fragment;
    fragment.elements = record.elements;
    fragment.snapshot_offset = record.snapshot_offset;
    fragment.values_offset[0] = record.values_offset[0];
    fragment.values_offset[1] = record.values_offset[1];
    fragment.chunks = record.chunks;
    fragment.dtype = record.dtype;
    fragment.group = record.group;
    fragments.push_back(std::move(fragment));
  }
  if (Status status = CheckDisjoint(snapshot); !status.ok()) return status;
  return CheckDisjoint(values);
}

Status CheckPlacement(const local::PlacementRecord& record, const Tensor& tensor,
                      const std::vector<Fragment>& fragments) {
  if (record.zero != 0) return Bad("reserved bytes are not zero");
  if (record.fragment >= fragments.size())
    return Bad("a tensor in no fragment: '" + tensor.name + "'");
  const Fragment& fragment = fragments[record.fragment];
  if (tensor.group == CW_FIXED) {
    return record.elements == 0 ? Status() : Bad("room for fixed tensor '" + tensor.name + "'");
  }
  if (record.elements != tensor.elements || fragment.dtype != tensor.dtype ||
      fragment.group != tensor.group) {
    return TensorFailure(CW_SCHEMA, tensor.name,
                         "the gateway placed it with another size, dtype or group");
  }
  if (record.first_element % local::kTensorAlignElements != 0 ||
      record.first_element > fragment.elements ||
      record.elements > fragment.elements - record.first_element) {
    return Bad("tensor '" + tensor.name + "' lies outside its fragment");
  }
  return Status();
}

}  // namespace

uint64_t LayoutBytes(uint32_t fragments, uint32_t tensors) {
  return fragments * sizeof(local::FragmentRecord) + tensors * sizeof(local::PlacementRecord);
}

Status Layout::Parse(const uint8_t* bytes, const local::Joined& joined, const Schema& schema,
                     Layout& layout) {
  layout = Layout();
  const std::vector<Tensor>& tensors = schema.tensors();
  if (joined.tensors != tensors.size()) return Bad("another number of tensors than this trainer's");
  if (joined.layout_bytes < LayoutBytes(joined.fragments, joined.tensors)) return Bad("too small");
  if (Status status = ParseFragments(bytes, joined, layout.fragments_); !status.ok()) return status;
  const uint8_t* records = bytes + joined.fragments * sizeof(local::FragmentRecord);
  for (uint32_t i = 0; i < joined.tensors; ++i) {
    local::PlacementRecord record;
    std::memcpy(&record, records + i * sizeof(record), sizeof(record));
    if (Status status = CheckPlacement(record, tensors[i], layout.fragments_); !status.ok())
      return status;
    const Placement placement{record.fragment, record.first_element, record.elements};
    if (tensors[i].alias_of >= 0) {
      const Placement& original = layout.placements_[tensors[i].alias_of];
      if (original.fragment != placement.fragment ||
          original.first_element != placement.first_element) {
        return Bad("alias '" + tensors[i].name + "' does not share its original's place");
      }
    } else if (placement.elements > 0) {
      layout.fragments_[record.fragment].tensors.push_back(i);
    }
    layout.placements_.push_back(placement);
  }
  for (Fragment& fragment : layout.fragments_) {
    auto first = [&](uint32_t t) { return layout.placements_[t].first_element; };
    std::stable_sort(fragment.tensors.begin(), fragment.tensors.end(),
                     [&](uint32_t a, uint32_t b) { return first(a) < first(b); });
    uint64_t end = 0;
    for (uint32_t t : fragment.tensors) {
      if (first(t) < end) return Bad("tensor '" + tensors[t].name + "' overlaps another");
      end = first(t) + layout.placements_[t].elements;
    }
  }
  return Status();
}

bool Layout::SameShape(const Layout& other) const {
  if (fragments_.size() != other.fragments_.size() ||
      placements_.size() != other.placements_.size()) {
    return false;
  }
  for (size_t i = 0; i < fragments_.size(); ++i) {
    if (fragments_[i].elements != other.fragments_[i].elements ||
        fragments_[i].dtype != other.fragments_[i].dtype ||
        fragments_[i].group != other.fragments_[i].group) {
      return false;
    }
  }
  for (size_t i = 0; i < placements_.size(); ++i) {
    if (placements_[i].fragment != other.placements_[i].fragment ||
        placements_[i].first_element != other.placements_[i].first_element ||
        placements_[i].elements != other.placements_[i].elements) {
      return false;
    }
  }
  return true;
}

}  // namespace causeway::client
