// The tensors that a trainer joins with: checked, and written into a sealed memfd for the gateway.
//
// Immutable once built. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/include/causeway.h"
#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client {

struct Tensor {
  std::string name;
  uint8_t dtype = 0;
  uint8_t group = 0;
  int32_t alias_of = -1;
  uint8_t stage = 0;
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
};

class Schema {
 public:
  // ARGUMENT or SCHEMA, naming the tensor.
  static Status Build(const cw_tensor* tensors, uint32_t count, Schema& schema);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool operator==(const Schema& other) const;

  // A fresh memfd with one TensorRecord a tensor, sealed against any change.
  Status Write(Descriptor& memfd) const;

 private:
  std::vector<Tensor> tensors_;
};

// Bytes of one element; the dtype must be valid.
uint64_t BytesOf(uint8_t dtype);
const char* DTypeName(uint8_t dtype);

}  // namespace causeway::client
