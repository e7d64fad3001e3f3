// A run's schema: its named tensors, as a trainer declares them in TensorRecords.
//
// Parse checks every byte of the hostile records, so whoever holds a Schema holds a legal one. The
// digest must agree on all clusters; where it does not, the canonical lines tell a person which
// tensor differs. Immutable values: any thread may read. Does not: place tensors in fragments
// (layout.h) or hold data.
//
// A run may grow: each tensor belongs to a stage, and the tensors up to a stage are the schema that
// the run had before it grew further. So whoever has a schema knows all that it extends, by digest.
#ifndef CAUSEWAY_DAEMON_SCHEMA_SCHEMA_H_
#define CAUSEWAY_DAEMON_SCHEMA_SCHEMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/local_protocol.h"

namespace causeway::schema {

using Digest = std::array<uint8_t, 32>;

inline constexpr uint64_t kSchemaBytesMax =
    uint64_t{local::kTensorsMax} * sizeof(local::TensorRecord);
inline constexpr int32_t kNoAlias = -1;

struct Tensor {
  std::string name;  // printable UTF-8, 1 .. kTensorNameMax bytes, unique
  local::DType dtype = local::DType::kFp32;
  local::Group group = local::Group::kParameter;
  int32_t alias_of =
      kNoAlias;  // an earlier tensor that is no alias itself, same dtype, group and shape
  std::vector<uint64_t> shape;  // empty: a scalar
  uint64_t elements = 0;        // product of the shape, 0 is legal; of a fixed one always 0
  uint8_t stage = 0;            // not below that of the tensor before it, nor more than one above
};

const char* DTypeName(local::DType dtype);  // "fp32"
const char* GroupName(local::Group group);  // "parameter"
size_t DTypeBytes(local::DType dtype);

class Schema {
 public:
  // `records` are the bytes of exactly `count` TensorRecords; they may change nowhere meanwhile, so
  // copy them out of shared memory first. InvalidArgument names the tensor by index (and name, once
  // it is legal) and says what to mend. Allocates in proportion to `count`, at most kTensorsMax.
  static absl::StatusOr<Schema> Parse(absl::Span<const uint8_t> records, uint32_t count);

  const std::vector<Tensor>& tensors() const { return tensors_; }

  // Elements of all tensors, aliases counted once; at most kElementsMax.
  uint64_t elements() const { return elements_; }

  // SHA-256 over "causeway schema 1\0" and the records as they were given. Every byte of a record
  // is significant and padding is zero, so equal schemas have equal bytes.
  const Digest& digest() const { return stage_digests_.back(); }

  // Stages, at least one; and the digest of the schema of the tensors up to and with a stage.
  uint32_t stages() const { return static_cast<uint32_t>(stage_digests_.size()); }
  const Digest& stage_digest(uint32_t stage) const { return stage_digests_.at(stage); }
  // The stage of that digest; nullopt: this schema neither is nor extends that one.
  std::optional<uint32_t> StageOf(const Digest& digest) const;

  // The records again, byte for byte as they were given.
  std::vector<uint8_t> Records() const;

  // One canonical line a tensor, in order: what FirstDifference compares and what clusters exchange
  // when their digests differ. "fp32 parameter [128, 384] h.0.weight" or "... alias of 3 name"; of
  // a later stage "... of stage 1 name".
  std::vector<std::string> Lines() const;

 private:
  Schema() = default;

  std::vector<Tensor> tensors_;
  uint64_t elements_ = 0;
  std::vector<Digest> stage_digests_;
};

// The first tensor in which two schemas differ, in words:
//   "tensor 3 'h.0.weight': fp32 parameter [128, 384] here, fp32 parameter [128, 512] at tokyo"
// Empty when the lines are equal. `theirs` may be hostile text: it is clipped and control
// characters are replaced.
std::string FirstDifference(absl::Span<const std::string> here,
                            absl::Span<const std::string> theirs, const std::string& their_name);

// "9f86d081..." in full, for logs and digests in messages.
std::string Hex(absl::Span<const uint8_t> bytes);

}  // namespace causeway::schema

#endif  // CAUSEWAY_DAEMON_SCHEMA_SCHEMA_H_
