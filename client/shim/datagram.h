// One message of the local protocol as it arrived: its bytes, checked, and the descriptors beside
// them.
//
// Check() refuses whatever a gateway of this version would not send: wrong magic, version, type,
// size, non-zero padding, unterminated strings, counts over their limits, a wrong number of
// descriptors. Nothing else in the shim looks at bytes that Check() has not seen. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "client/shim/descriptor.h"
#include "client/shim/failure.h"
#include "proto/local_protocol.h"

namespace causeway::client {

inline constexpr size_t kDescriptorsMax = 4;  // beside one message; more are closed and refused

struct Datagram {
  alignas(8) uint8_t bytes[local::kMessageBytesMax];
  size_t size = 0;
  std::vector<Descriptor> descriptors;

  // The message as a struct; only after Check(), which made sure that the size is sizeof(T).
  template <typename T>
  T As() const {
    static_assert(std::is_trivially_copyable_v<T>);
    T message;
    std::memcpy(&message, bytes, sizeof(T));
    return message;
  }
  local::Header header() const { return As<local::Header>(); }
  local::Type type() const { return static_cast<local::Type>(header().type); }

  // `version`: of the session, or 0 before Welcome chose one.
  Status Check(uint16_t version) const;
};

}  // namespace causeway::client
