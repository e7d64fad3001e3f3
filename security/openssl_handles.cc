// See openssl_handles.h.
#include "security/openssl_handles.h"

#include <openssl/err.h>

#include <cassert>

namespace causeway::security {

absl::Status OpensslError(absl::StatusCode code, const std::string& what) {
  const unsigned long error = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return absl::Status(code, reason == nullptr ? what : what + ": " + reason);
}

BioHandle ViewBytes(const std::string& bytes) {
  BioHandle bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  assert(bio != nullptr);  // only an exhausted heap refuses it
  return bio;
}

std::string TakeBytes(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);  // NOLINT: OpenSSL's type
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

}  // namespace causeway::security
