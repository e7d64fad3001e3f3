// Builds TensorRecords for tests.
#ifndef CAUSEWAY_TESTS_UNIT_SCHEMA_RECORDS_H_
#define CAUSEWAY_TESTS_UNIT_SCHEMA_RECORDS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/local_protocol.h"

namespace causeway::testing {

inline local::TensorRecord Record(const std::string& name, const std::vector<uint64_t>& shape,
                                  local::DType dtype = local::DType::kFp32,
                                  local::Group group = local::Group::kParameter,
                                  int32_t alias_of = -1) {
  local::TensorRecord record{};
  std::memcpy(record.name, name.data(), name.size());
  record.dtype = static_cast<uint8_t>(dtype);
  record.group = static_cast<uint8_t>(group);
  record.dimensions = static_cast<uint8_t>(shape.size());
  record.alias_of = alias_of;
  for (size_t i = 0; i < shape.size(); ++i) record.shape[i] = shape[i];
  return record;
}

inline absl::Span<const uint8_t> BytesOf(const std::vector<local::TensorRecord>& records) {
  return {reinterpret_cast<const uint8_t*>(records.data()),
          records.size() * sizeof(local::TensorRecord)};
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_SCHEMA_RECORDS_H_
