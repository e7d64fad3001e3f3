// The small languages inside values: durations, sizes, addresses, modes, numbers.
//
// Pure functions, any thread. Every failure is InvalidArgument with a message that reads after
// "key: ", shows the value, and says what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace causeway::config {

// "250ms", "10s", "1.5m", "2h", in milliseconds; "0" needs no unit.
absl::StatusOr<int64_t> ParseDurationMs(std::string_view text);
// "512MiB", "4GiB": powers of 1024, in bytes.
absl::StatusOr<int64_t> ParseSizeBytes(std::string_view text);
// "200mbit", "1.5gbit": powers of 1000, in bits a second.
absl::StatusOr<int64_t> ParseRateBits(std::string_view text);
// Digits with an optional sign.
absl::StatusOr<int64_t> ParseInteger(std::string_view text);
// A finite decimal number.
absl::StatusOr<double> ParseNumber(std::string_view text);
// "true" or "false".
absl::StatusOr<bool> ParseBool(std::string_view text);
// Octal permissions with a leading zero, as "0660".
absl::StatusOr<uint32_t> ParseMode(std::string_view text);

struct Address {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;
};
// "host:port" or "[v6]:port"; the port is 1 to 65535. A listening host is an address, a dialled one
// may be a name.
absl::StatusOr<Address> ParseDialAddress(std::string_view text);
absl::StatusOr<Address> ParseListenAddress(std::string_view text);

// "10s", "1m 30s", "4 GiB": the inverses, for people.
std::string FormatDurationMs(int64_t ms);
std::string FormatSizeBytes(int64_t bytes);
std::string FormatRateBits(int64_t bits);

}  // namespace causeway::config
