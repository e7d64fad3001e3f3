#include "client/shim/failure.h"

#include <cstring>

namespace causeway::client {

Status::Status(int code, std::string text) : failure_(std::make_unique<Failure>()) {
  failure_->code = code;
  failure_->retryable = IsRetryable(code);
  failure_->text = std::move(text);
}

bool IsRetryable(int code) {
  switch (code) {
    case CW_BUSY:
    case CW_STALLED:
    case CW_GATEWAY_LOST:
    case CW_REBASE:
    case CW_NOT_READY:
    case CW_TIMEOUT:
    case CW_DRAINING:
    case CW_INTERRUPTED:
      return true;
    default:
      return false;
  }
}

const char* CodeName(int code) {
  switch (code) {
    case CW_OK:
      return "OK";
    case CW_BUSY:
      return "BUSY";
    case CW_STALLED:
      return "STALLED";
    case CW_GATEWAY_LOST:
      return "GATEWAY_LOST";
    case CW_REBASE:
      return "REBASE";
    case CW_NOT_READY:
      return "NOT_READY";
    case CW_TIMEOUT:
      return "TIMEOUT";
    case CW_DRAINING:
      return "DRAINING";
    case CW_INTERRUPTED:
      return "INTERRUPTED";
    case CW_SCHEMA:
      return "SCHEMA";
    case CW_ALGORITHM:
      return "ALGORITHM";
    case CW_IDENTITY_TAKEN:
      return "IDENTITY_TAKEN";
    case CW_NONFINITE:
      return "NONFINITE";
    case CW_HASH_MISMATCH:
      return "HASH_MISMATCH";
    case CW_FORKED:
      return "FORKED";
    case CW_COMM:
      return "COMM";
    case CW_RUN:
      return "RUN";
    case CW_PROTOCOL:
      return "PROTOCOL";
    case CW_MEMORY:
      return "MEMORY";
    case CW_INIT:
      return "INIT";
    case CW_INTERNAL:
      return "INTERNAL";
    case CW_CUDA:
      return "CUDA";
    case CW_ARGUMENT:
      return "ARGUMENT";
    default:
      return "UNKNOWN";
  }
}

Status TensorFailure(int code, const std::string& tensor, std::string text) {
  Failure failure;
  failure.code = code;
  failure.retryable = IsRetryable(code);
  failure.tensor = tensor;
  failure.text = "tensor '" + tensor + "': " + std::move(text);
  return Status(std::move(failure));
}

std::string WithErrno(const std::string& text, int error_number) {
  char buffer[128] = "";
  // The GNU form: returns the text, in the buffer or static.
  return text + ": " + strerror_r(error_number, buffer, sizeof(buffer));
}

}  // namespace causeway::client
