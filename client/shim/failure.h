// What a call of the shim answers when it does not succeed: the trainer-visible error, complete.
//
// A Status is null when all is well, so passing it costs a pointer. absl::Status is not used here
// because the shim carries nothing into the trainer's process but its own code. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/include/causeway.h"

namespace causeway::client {

struct Failure {
  int code = CW_INTERNAL;
  bool retryable = false;
  bool fatal = false;  // the session ends
  int64_t rank = -1;   // -1: unknown
  int64_t round = -1;
  std::string cluster;
  std::string tensor;
  std::string text;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Failure failure) : failure_(std::make_unique<Failure>(std::move(failure))) {}
  Status(int code, std::string text);

  bool ok() const { return failure_ == nullptr; }
  int code() const { return failure_ ? failure_->code : CW_OK; }
  const Failure& failure() const { return *failure_; }  // only where !ok()

 private:
  std::unique_ptr<Failure> failure_;
};

// Whether a code means "try again" by itself (a gateway's message says it of its own errors).
bool IsRetryable(int code);

// A code as users read it: "GATEWAY_LOST".
const char* CodeName(int code);

// An argument error that names a tensor.
Status TensorFailure(int code, const std::string& tensor, std::string text);

// "text: strerror(error_number)".
std::string WithErrno(const std::string& text, int error_number);

}  // namespace causeway::client
