// Building layouts. See layout.h.
#include "daemon/schema/layout.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace causeway::schema {
namespace {

constexpr local::DType kDTypes[] = {local::DType::kFp32, local::DType::kBf16, local::DType::kFp16};
constexpr size_t kDTypeCount = std::size(kDTypes);

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t Aligned(const Tensor& tensor) {
  return RoundUp(tensor.elements, local::kTensorAlignElements);
}

// Elements of a stage's parameters, padding included.
uint64_t ParametersOf(const Schema& schema, uint32_t stage) {
  uint64_t sum = 0;
  for (const Tensor& tensor : schema.tensors()) {
    const bool counts = tensor.alias_of == kNoAlias && tensor.stage == stage &&
                        tensor.group == local::Group::kParameter;
    if (counts) sum += Aligned(tensor);
  }
  return sum;
}

// So many that a later stage's fragments are about as large as the first one's.
uint32_t FragmentsOf(const Schema& schema, uint32_t stage, uint32_t fragments) {
  const uint64_t first = ParametersOf(schema, 0);
  if (stage == 0 || first == 0) return fragments;
  const auto wanted = static_cast<unsigned __int128>(ParametersOf(schema, stage)) * fragments;
  return static_cast<uint32_t>(
      std::clamp<unsigned __int128>((wanted + first / 2) / first, 1, fragments));
}

// Indices of the tensors with room of their own, of one stage, group and dtype, in schema order.
std::vector<uint32_t> Select(const Schema& schema, uint32_t stage, local::Group group,
                             local::DType dtype) {
  std::vector<uint32_t> selected;
  for (uint32_t i = 0; i < schema.tensors().size(); ++i) {
    const Tensor& tensor = schema.tensors()[i];
    if (tensor.alias_of == kNoAlias && tensor.stage == stage && tensor.group == group &&
        tensor.dtype == dtype) {
      selected.push_back(i);
    }
  }
  return selected;
}

std::vector<uint64_t> Weights(const Schema& schema, absl::Span<const uint32_t> tensors) {
  std::vector<uint64_t> weights;
  weights.reserve(tensors.size());
  for (uint32_t tensor : tensors) weights.push_back(Aligned(schema.tensors()[tensor]));
  return weights;
}

// How many fragments each dtype gets: one where it has tensors, then one at a time to the dtype
// whose share is the largest, never more than it has tensors. Ties go to the lower dtype id.
std::vector<size_t> Share(const std::vector<uint64_t> (&weights)[kDTypeCount], size_t fragments) {
  std::vector<size_t> parts(kDTypeCount, 0);
  uint64_t totals[kDTypeCount] = {};
  size_t given = 0;
  for (size_t d = 0; d < kDTypeCount; ++d) {
    for (uint64_t weight : weights[d]) totals[d] += weight;
    if (!weights[d].empty()) {
      parts[d] = 1;
      ++given;
    }
  }
  while (given < fragments) {
    size_t best = kDTypeCount;
    for (size_t d = 0; d < kDTypeCount; ++d) {
      if (parts[d] == weights[d].size()) continue;
      // totals[d] / parts[d] > totals[best] / parts[best], without rounding.
      if (best == kDTypeCount || static_cast<unsigned __int128>(totals[d]) * parts[best] >
                                     static_cast<unsigned __int128>(totals[best]) * parts[d]) {
        best = d;
      }
    }
    if (best == kDTypeCount) break;  // fewer tensors than fragments
    ++parts[best];
    ++given;
  }
  return parts;
}

// need[i]: runs that weights[i..] take when none may weigh more than `capacity`.
std::vector<size_t> RunsNeeded(absl::Span<const uint64_t> weights, uint64_t capacity) {
  const size_t n = weights.size();
  std::vector<size_t> need(n + 1, 0);
  uint64_t sum = 0;
  size_t end = n;  // weights[i..end) is the longest run from i that fits
  for (size_t i = n; i-- > 0;) {
    sum += weights[i];
    while (sum > capacity) sum -= weights[--end];
    need[i] = 1 + need[end];
  }
  return need;
}

// The smallest capacity with which `parts` runs suffice.
uint64_t SmallestCapacity(absl::Span<const uint64_t> weights, size_t parts) {
  uint64_t low = 0, high = 0;
  for (uint64_t weight : weights) {
    low = std::max(low, weight);
    high += weight;
  }
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    size_t runs = 1;
    uint64_t sum = 0;
    for (uint64_t weight : weights) {
      if (sum + weight > middle) {
        ++runs;
        sum = 0;
      }
      sum += weight;
    }
    if (runs <= parts) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

std::vector<size_t> CutBalanced(absl::Span<const uint64_t> weights, size_t parts) {
  assert(parts >= 1 && parts <= weights.size());
  const uint64_t capacity = SmallestCapacity(weights, parts);
  const std::vector<size_t> need = RunsNeeded(weights, capacity);
  uint64_t rest = 0;
  for (uint64_t weight : weights) rest += weight;
  std::vector<size_t> ends;
  size_t begin = 0;
  for (size_t part = 0; part < parts; ++part) {
    const size_t left = parts - part;  // runs still to make, this one included
    size_t end = begin;
    uint64_t sum = 0;
    // Grow while it fits and leaves a tensor for each later run; stop at the even share of what is
    // left as soon as the later runs can hold the remainder.
    while (end < weights.size() && weights.size() - end > left - 1 &&
           (end == begin || sum + weights[end] <= capacity)) {
      if (end > begin && need[end] <= left - 1 && sum + weights[end] / 2 >= rest / left) break;
      sum += weights[end++];
    }
    rest -= sum;
    ends.push_back(end);
    begin = end;
  }
  assert(begin == weights.size());
  return ends;
}

void Layout::Append(const Schema& schema, absl::Span<const uint32_t> tensors) {
  const Tensor& first = schema.tensors()[tensors.front()];
  const auto index = static_cast<uint32_t>(fragments_.size());
  local::FragmentRecord record{};
  std::vector<Occupant> occupants;
  for (uint32_t t : tensors) {
    const Tensor& tensor = schema.tensors()[t];
    placements_[t] = {record.elements, tensor.elements, index, 0};
    if (tensor.elements != 0) occupants.push_back({record.elements, tensor.elements, t});
    record.elements += Aligned(tensor);
  }
  record.elements = std::max<uint64_t>(record.elements, local::kTensorAlignElements);
  record.chunks =
      static_cast<uint32_t>((record.elements + kLayoutChunkElements - 1) / kLayoutChunkElements);
  record.dtype = static_cast<uint8_t>(first.dtype);
  record.group = static_cast<uint8_t>(first.group);
  record.snapshot_offset = snapshot_bytes_;
  snapshot_bytes_ += RoundUp(record.elements * DTypeBytes(first.dtype), kPageBytes);
  for (uint64_t& offset : record.values_offset) {
    offset = values_bytes_;
    values_bytes_ += RoundUp(record.elements * sizeof(float), kPageBytes);
  }
  elements_ += record.elements;
  fragments_.push_back(record);
  occupants_.push_back(std::move(occupants));
}

void Layout::PlaceAliases(const Schema& schema) {
  for (uint32_t i = 0; i < schema.tensors().size(); ++i) {
    const int32_t target = schema.tensors()[i].alias_of;
    if (target != kNoAlias) placements_[i] = placements_[target];
  }
}

void Layout::AppendStage(const Schema& schema, uint32_t stage, uint32_t fragments) {
  std::vector<uint32_t> parameters[kDTypeCount];
  std::vector<uint64_t> weights[kDTypeCount];
  for (size_t d = 0; d < kDTypeCount; ++d) {
    parameters[d] = Select(schema, stage, local::Group::kParameter, kDTypes[d]);
    weights[d] = Weights(schema, parameters[d]);
  }
  const std::vector<size_t> parts = Share(weights, fragments);
  for (size_t d = 0; d < kDTypeCount; ++d) {
    if (parts[d] == 0) continue;
    size_t begin = 0;
    for (size_t end : CutBalanced(weights[d], parts[d])) {
      Append(schema, absl::MakeSpan(parameters[d]).subspan(begin, end - begin));
      begin = end;
    }
  }
  if (stage == 0) {
    parameter_fragments_ = static_cast<uint32_t>(fragments_.size());
    if (parameter_fragments_ != fragments) {
      note_ = absl::StrCat(
          parameter_fragments_, " parameter fragments in place of ", fragments, ": ",
          parameter_fragments_ < fragments
              ? "a fragment holds whole tensors, and there are no more parameter tensors"
              : "a fragment holds one dtype, and the parameters have more dtypes");
    }
  }
  for (local::DType dtype : kDTypes) {
    const std::vector<uint32_t> buffers = Select(schema, stage, local::Group::kBuffer, dtype);
    if (!buffers.empty()) Append(schema, buffers);
  }
  stage_ends_.push_back(static_cast<uint32_t>(fragments_.size()));
}

absl::StatusOr<Layout> Layout::Build(const Schema& schema, uint32_t fragments) {
  if (fragments == 0) return absl::InvalidArgumentError("layout: fragments must be at least 1");
  if (fragments > local::kFragmentsMax) {
    return absl::InvalidArgumentError(absl::StrCat("layout: ", fragments, " fragments; at most ",
                                                   local::kFragmentsMax, " are supported"));
  }
  Layout layout;
  layout.placements_.resize(schema.tensors().size());
  for (uint32_t stage = 0; stage < schema.stages(); ++stage) {
    layout.AppendStage(schema, stage, FragmentsOf(schema, stage, fragments));
    if (layout.fragments_.size() > local::kFragmentsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout: ", layout.fragments_.size(),
                       " fragments with those of the buffers and of stage ", stage, "; at most ",
                       local::kFragmentsMax, " are supported; ask for fewer"));
    }
  }
  layout.PlaceAliases(schema);
  return layout;
}

uint32_t Layout::StageOf(uint32_t fragment) const {
  assert(fragment < fragments_.size());
  return static_cast<uint32_t>(std::upper_bound(stage_ends_.begin(), stage_ends_.end(), fragment) -
                               stage_ends_.begin());
}

uint32_t Layout::ChunkElements(uint32_t fragment, uint32_t chunk) const {
  assert(fragment < fragments_.size() && chunk < fragments_[fragment].chunks);
  const uint64_t begin = uint64_t{chunk} * kLayoutChunkElements;
  return static_cast<uint32_t>(
      std::min<uint64_t>(kLayoutChunkElements, fragments_[fragment].elements - begin));
}

std::optional<uint32_t> Layout::TensorAt(uint32_t fragment, uint64_t element) const {
  assert(fragment < fragments_.size());
  const std::vector<Occupant>& occupants = occupants_[fragment];
  auto after = std::upper_bound(
      occupants.begin(), occupants.end(), element,
      [](uint64_t value, const Occupant& occupant) { return value < occupant.first_element; });
  if (after == occupants.begin()) return std::nullopt;
  const Occupant& found = *--after;
  if (element - found.first_element >= found.elements) return std::nullopt;
  return found.tensor;
}

std::optional<uint64_t> Layout::NextOccupied(uint32_t fragment, uint64_t element) const {
  assert(fragment < fragments_.size());
  const std::vector<Occupant>& occupants = occupants_[fragment];
  auto found = std::upper_bound(occupants.begin(), occupants.end(), element,
                                [](uint64_t value, const Occupant& occupant) {
                                  return value < occupant.first_element + occupant.elements;
                                });
  if (found == occupants.end()) return std::nullopt;
  return std::max(element, found->first_element);
}

std::vector<uint8_t> Layout::Bytes() const {
  const size_t fragment_bytes = fragments_.size() * sizeof(local::FragmentRecord);
  const size_t placement_bytes = placements_.size() * sizeof(local::PlacementRecord);
  std::vector<uint8_t> bytes(fragment_bytes + placement_bytes);
  std::memcpy(bytes.data(), fragments_.data(), fragment_bytes);
  std::memcpy(bytes.data() + fragment_bytes, placements_.data(), placement_bytes);
  return bytes;
}

}  // namespace causeway::schema
