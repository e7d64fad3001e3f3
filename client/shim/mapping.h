// A gateway's memfd, mapped into this process.
//
// Refuses one that its maker could still truncate (no F_SEAL_SHRINK): that would kill the trainer
// with SIGBUS. Not inherited over fork (MADV_DONTFORK). Move-only; confined to its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client {

class Mapping {
 public:
  // `what` names it in errors. Zero bytes are legal and map nothing.
  static Status Map(const Descriptor& memfd, uint64_t bytes, bool writable, const char* what,
                    Mapping& mapping);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  // In a forked child, where the mapping does not exist: never unmap what may lie there now.
  void Forget() { data_ = nullptr, size_ = 0; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace causeway::client
