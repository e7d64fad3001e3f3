#include "client/shim/schema.h"

#include <cstring>
#include <unordered_set>

#include "client/shim/sealed_memfd.h"
#include "proto/local_protocol.h"

namespace causeway::client {
namespace {

Status CheckShape(const cw_tensor& given, Tensor& tensor) {
  if (given.dimensions > local::kDimensionsMax) {
    return TensorFailure(CW_SCHEMA, tensor.name,
                         "more than " + std::to_string(local::kDimensionsMax) + " dimensions");
  }
  for (uint8_t d = 0; d < given.dimensions; ++d) {
    tensor.shape.push_back(given.shape[d]);
    if (__builtin_mul_overflow(tensor.elements, given.shape[d], &tensor.elements) ||
        tensor.elements > local::kElementsMax) {
      return TensorFailure(CW_SCHEMA, tensor.name, "too many elements");
    }
  }
  return Status();
}

Status CheckAlias(const std::vector<Tensor>& earlier, const Tensor& tensor) {
  if (tensor.alias_of < 0) return Status();
  if (static_cast<size_t>(tensor.alias_of) >= earlier.size()) {
    return TensorFailure(CW_SCHEMA, tensor.name, "alias_of must name an earlier tensor");
  }
  const Tensor& original = earlier[tensor.alias_of];
  if (original.alias_of >= 0) {
    return TensorFailure(CW_SCHEMA, tensor.name, "is an alias of an alias; name the first tensor");
  }
  if (original.dtype != tensor.dtype || original.shape != tensor.shape ||
      original.group != tensor.group) {
    return TensorFailure(
        CW_SCHEMA, tensor.name,
        "is an alias of '" + original.name + "' with another dtype, shape or group");
  }
  return Status();
}

local::TensorRecord RecordOf(const Tensor& tensor) {
  local::TensorRecord record{};
  std::memcpy(record.name, tensor.name.data(), tensor.name.size());
  record.dtype = tensor.dtype;
  record.group = tensor.group;
  record.dimensions = static_cast<uint8_t>(tensor.shape.size());
  record.stage = tensor.stage;
  record.alias_of = tensor.alias_of;
  for (size_t d = 0; d < tensor.shape.size(); ++d) record.shape[d] = tensor.shape[d];
  return record;
}

}  // namespace

uint64_t BytesOf(uint8_t dtype) { return dtype == CW_FP32 ? 4 : 2; }

const char* DTypeName(uint8_t dtype) {
  return dtype == CW_FP32 ? "fp32" : dtype == CW_BF16 ? "bf16" : dtype == CW_FP16 ? "fp16" : "?";
}

Status Schema::Build(const cw_tensor* tensors, uint32_t count, Schema& schema) {
  schema.tensors_.clear();
  if (tensors == nullptr || count == 0) return Status(CW_ARGUMENT, "no tensors to join with");
  if (count > local::kTensorsMax) {
    return Status(CW_SCHEMA, "more than " + std::to_string(local::kTensorsMax) + " tensors");
  }
  std::unordered_set<std::string> names;
  uint64_t elements = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const cw_tensor& given = tensors[i];
    Tensor tensor;
    const std::string position = "tensor " + std::to_string(i);
    if (given.name == nullptr || *given.name == 0)
      return Status(CW_SCHEMA, position + " has no name");
    tensor.name = given.name;
    if (tensor.name.size() > local::kTensorNameMax) {
      return Status(CW_SCHEMA, position + ": its name is longer than " +
                                   std::to_string(local::kTensorNameMax) + " bytes");
    }
    if (!names.insert(tensor.name).second) {
      return TensorFailure(CW_SCHEMA, tensor.name, "two tensors have this name");
    }
    if (given.dtype > CW_FP16) {
      return TensorFailure(CW_SCHEMA, tensor.name, "its dtype is none of fp32, bf16 and fp16");
    }
    if (given.group > CW_FIXED) return TensorFailure(CW_SCHEMA, tensor.name, "unknown group");
    tensor.dtype = given.dtype;
    tensor.group = given.group;
    tensor.alias_of = given.alias_of;
    tensor.stage = given.stage;
    const int before = i == 0 ? 0 : schema.tensors_.back().stage;
    if (given.stage < before || given.stage > before + (i == 0 ? 0 : 1)) {
      return TensorFailure(CW_SCHEMA, tensor.name,
                           "stages ascend from 0, one at a time: new tensors come last");
    }
    if (Status status = CheckShape(given, tensor); !status.ok()) return status;
    if (Status status = CheckAlias(schema.tensors_, tensor); !status.ok()) return status;
    if (tensor.group == CW_FIXED) tensor.elements = 0;
    if (tensor.alias_of < 0) elements += tensor.elements;
    if (elements > local::kElementsMax)
      return Status(CW_SCHEMA, "the tensors have too many elements");
    schema.tensors_.push_back(std::move(tensor));
  }
  return Status();
}

bool Schema::operator==(const Schema& other) const {
  if (tensors_.size() != other.tensors_.size()) return false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor &a = tensors_[i], &b = other.tensors_[i];
    if (a.name != b.name || a.dtype != b.dtype || a.group != b.group || a.alias_of != b.alias_of ||
        a.stage != b.stage || a.shape != b.shape) {
      return false;
    }
  }
  return true;
}

Status Schema::Write(Descriptor& memfd) const {
  std::vector<local::TensorRecord> records;
  for (const Tensor& tensor : tensors_) records.push_back(RecordOf(tensor));
  return SealedMemfd("causeway schema", records.data(),
                     records.size() * sizeof(local::TensorRecord), memfd);
}

}  // namespace causeway::client
