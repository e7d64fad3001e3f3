// Calls to a running daemon over its admin socket. Blocking, one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/admin.pb.h"

namespace causeway::cli {

inline constexpr char kAdminSocket[] = "/run/causeway/admin.sock";
inline constexpr int kCallTimeoutMs = 5'000;

class AdminClient {
 public:
  // Tries the socket at once, so that failures name their reason: Unavailable when it does not
  // exist or nobody listens, PermissionDenied when this user may not.
  static absl::StatusOr<AdminClient> Connect(const std::string& socket);
  AdminClient(AdminClient&&) noexcept;
  ~AdminClient();

  // Unavailable or DeadlineExceeded when the daemon does not answer within kCallTimeoutMs.
  absl::StatusOr<admin::v1::StatusReply> Status();
  absl::StatusOr<std::string> ChangeRun(const admin::v1::ChangeRunRequest& request);

 private:
  struct State;
  explicit AdminClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::cli
