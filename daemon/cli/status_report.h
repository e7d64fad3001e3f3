// A daemon's status as tables for people. Pure; the caller passes the time.
#pragma once

#include <cstdint>
#include <string>

namespace causeway::admin::v1 {
class StatusReply;
}

namespace causeway::cli {

std::string FormatStatus(const admin::v1::StatusReply& status, int64_t now_s);
std::string FormatStatusJson(const admin::v1::StatusReply& status);

}  // namespace causeway::cli
