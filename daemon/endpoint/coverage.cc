// See coverage.h.
#include "daemon/endpoint/coverage.h"

#include <cassert>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace causeway::endpoint {

absl::Status Coverage::Add(uint64_t first, uint64_t count, uint32_t rank) {
  const uint64_t elements = layout_.fragments().at(fragment_).elements;
  if (first > elements || count > elements - first) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ": slice of ", count,
                                                   " elements from ", first, " leaves fragment ",
                                                   fragment_, " of ", elements, " elements"));
  }
  if (count == 0) return absl::OkStatus();
  if (slices_.size() >= local::kSlicesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank ", rank, ": more than ", local::kSlicesMax, " slices of fragment ", fragment_));
  }
  auto next = slices_.upper_bound(first);
  auto clash = slices_.end();
  if (next != slices_.end() && next->first < first + count) clash = next;
  if (next != slices_.begin() && std::prev(next)->second.end > first) clash = std::prev(next);
  if (clash != slices_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, ": elements ", first, " to ", first + count - 1, " of fragment ", fragment_,
        " overlap those of rank ", clash->second.rank, " (", clash->first, " to ",
        clash->second.end - 1, "); each element is submitted once"));
  }
  slices_.emplace(first, Slice{first + count, rank});
  return absl::OkStatus();
}

std::optional<uint64_t> Coverage::FirstMissing() const {
  uint64_t covered = 0;  // everything before it is covered or padding
  for (const auto& [first, slice] : slices_) {
    const std::optional<uint64_t> wanted = layout_.NextOccupied(fragment_, covered);
    if (wanted && *wanted < first) return wanted;
    covered = slice.end;
  }
  return layout_.NextOccupied(fragment_, covered);
}

}  // namespace causeway::endpoint
