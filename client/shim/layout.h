// Where each tensor lies in the shared memory: the gateway's tables, checked against the schema.
//
// After Parse every offset that the tables give is inside the mapped areas and no two tensors that
// are not aliases overlap, so the rest of the shim uses them without a check. Immutable. Any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "client/shim/failure.h"
#include "client/shim/schema.h"
#include "proto/local_protocol.h"

namespace causeway::client {

struct Fragment {
  uint64_t elements = 0;
  uint64_t snapshot_offset = 0;
  uint64_t values_offset[2] = {0, 0};
  uint32_t chunks = 0;
  uint8_t dtype = 0;
  uint8_t group = 0;
  std::vector<uint32_t> tensors;  // by first element; neither aliases nor empty ones
};

struct Placement {
  uint32_t fragment = 0;
  uint64_t first_element = 0;
  uint64_t elements = 0;
};

class Layout {
 public:
  // `bytes`: the layout memfd. PROTOCOL or SCHEMA names what is wrong.
  static Status Parse(const uint8_t* bytes, const local::Joined& joined, const Schema& schema,
                      Layout& layout);

  const std::vector<Fragment>& fragments() const { return fragments_; }
  const std::vector<Placement>& placements() const { return placements_; }
  // Whether fragments and placements agree; offsets into the memory may differ.
  bool SameShape(const Layout& other) const;

 private:
  std::vector<Fragment> fragments_;
  std::vector<Placement> placements_;
};

// Bytes that the layout memfd must hold; the counts are within their limits.
uint64_t LayoutBytes(uint32_t fragments, uint32_t tensors);

}  // namespace causeway::client
