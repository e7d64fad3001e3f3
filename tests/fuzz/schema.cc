// Fuzzes schemas and the layouts made of them. Input: fragments wanted (1 byte), then
// TensorRecords; a last partial record is left out.
#include "daemon/schema/schema.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "daemon/schema/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace schema = causeway::schema;
  if (size < 1) return 0;
  const auto count = static_cast<uint32_t>((size - 1) / sizeof(causeway::local::TensorRecord));
  const auto parsed =
      schema::Schema::Parse({data + 1, count * sizeof(causeway::local::TensorRecord)}, count);
  if (!parsed.ok()) return 0;
  if (parsed->elements() > causeway::local::kElementsMax) std::abort();
  if (!schema::FirstDifference(parsed->Lines(), parsed->Lines(), "x").empty()) std::abort();
  const auto layout = schema::Layout::Build(*parsed, data[0]);
  if (!layout.ok()) return 0;
  for (uint32_t t = 0; t < count; ++t) {
    const auto& place = layout->placements()[t];
    if (place.fragment >= layout->fragments().size()) std::abort();
    if (place.first_element + place.elements > layout->fragments()[place.fragment].elements) {
      std::abort();
    }
  }
  return 0;
}
