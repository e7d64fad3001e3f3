// Between absl::Status and grpc::Status, whose codes are the same numbers.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_GRPC_STATUS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "daemon/transport/limits.h"

namespace causeway::transport {

inline grpc::Status ToGrpc(const absl::Status& status) {
  const std::string text(status.message().substr(0, kTextBytesMax));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), text);
}

// Text from a peer goes into logs: cut to kTextBytesMax, and printable ASCII.
inline std::string PrintableText(const std::string& text) {
  std::string result = text.substr(0, kTextBytesMax);
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      PrintableText(status.error_message()));
}

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_GRPC_STATUS_H_
