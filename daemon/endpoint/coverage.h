// Which elements of one fragment's snapshot the ranks of a cluster have provided: each exactly
// once.
//
// A submission is whole when every element that belongs to a tensor is covered; padding may be left
// out or be part of a slice. Confined to one thread. Does not: read data.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_COVERAGE_H_
#define CAUSEWAY_DAEMON_ENDPOINT_COVERAGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/schema/layout.h"

namespace causeway::endpoint {

class Coverage {
 public:
  // `layout` outlives this object.
  Coverage(const schema::Layout& layout, uint32_t fragment)
      : layout_(layout), fragment_(fragment) {}

  // Takes elements [first, first + count) from `rank`. INVALID_ARGUMENT, and nothing changes, when
  // they leave the fragment or overlap an earlier slice, whose rank is named; RESOURCE_EXHAUSTED
  // over local::kSlicesMax. An empty slice is legal and covers nothing.
  absl::Status Add(uint64_t first, uint64_t count, uint32_t rank);

  // The first element of a tensor that nobody has provided; nullopt: the submission is whole.
  std::optional<uint64_t> FirstMissing() const;
  void Clear() { slices_.clear(); }

 private:
  struct Slice {
    uint64_t end;
    uint32_t rank;
  };

  const schema::Layout& layout_;
  const uint32_t fragment_;
  std::map<uint64_t, Slice> slices_;  // by first element, disjoint
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_COVERAGE_H_
