// What a run's local endpoint keeps in memory, as a formula: for check-config before a schema is
// known, and exactly once it is. Pure functions.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_MEMORY_NEEDED_H_
#define CAUSEWAY_DAEMON_ENDPOINT_MEMORY_NEEDED_H_

#include <cstdint>
#include <vector>

#include "compression/codec.h"
#include "daemon/endpoint/matrices.h"
#include "daemon/schema/layout.h"

namespace causeway::endpoint {

// One named part. Alignment adds to `bytes` at most kTensorAlignElements a tensor and a page an
// area.
struct MemoryPart {
  const char* name;          // "values", "snapshot", "residual", "pending residual",
                             // "gradient momentum" and its pending twin,
                             // "factors", "scratch"
  const char* what;          // for a person: what it holds
  double bytes_per_element;  // 0 for what does not grow with the model
  uint64_t bytes;
};

// A model of `elements` elements, all of `dtype`, its residual of `residual`. `corrects`:
// gradients' momentum is kept, too. Parts that the codec does not need are left out.
std::vector<MemoryPart> MemoryNeeded(uint64_t elements, local::DType dtype,
                                     const compression::CodecSpec& codec,
                                     compression::DType residual, uint32_t encoders_max,
                                     bool corrects = false);

// Exactly what LocalEndpoint::Create reserves.
std::vector<MemoryPart> MemoryNeeded(const schema::Layout& layout, const Matrices& matrices,
                                     const compression::CodecSpec& codec,
                                     compression::DType residual, uint32_t encoders_max, bool outer,
                                     bool corrects = false);

uint64_t TotalBytes(const std::vector<MemoryPart>& parts);

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_MEMORY_NEEDED_H_
