// What check-config prints of a configuration, as text and JSON. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/config/parse.h"

namespace causeway::cli {

inline constexpr uint64_t kExampleParameters = 25'000'000;

// `parameters`: of each run; none given: kExampleParameters as an example.
std::string FormatCheck(const config::ParseResult& result, std::optional<uint64_t> parameters);
std::string FormatCheckJson(const config::ParseResult& result, std::optional<uint64_t> parameters);

// All runs together, each of `parameters`.
uint64_t TotalBytes(const config::Config& config, uint64_t parameters);

}  // namespace causeway::cli
