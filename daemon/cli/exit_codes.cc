#include "daemon/cli/exit_codes.h"

namespace causeway::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kUsage;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
      return kUnavailable;
    case absl::StatusCode::kPermissionDenied:
      return kPermission;
    case absl::StatusCode::kDataLoss:
      return kInputOutput;
    default:
      return kBug;
  }
}

}  // namespace causeway::cli
