// One log line as text or JSON. Pure functions, any thread.
//
// The alternative, a formatting library's placeholders, leaves escaping to each caller; here no
// value can break out of its place, whatever bytes it holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "daemon/observe/log.h"

namespace causeway::observe {

struct LineHead {
  Level level;
  bool journal;          // begin with "<6>", no time
  int64_t unix_time_ms;  // unused with journal
  std::string_view event;
  uint64_t suppressed;  // lines of this event that rate limiting dropped before this one
};

// At most kLogLineBytesMax bytes, printable ASCII, no newline.
std::string FormatLine(LogFormat format, const LineHead& head, absl::Span<const Field> fields,
                       std::string_view text);

// "2030-01-02T03:04:05.678Z".
std::string FormatUnixTimeMs(int64_t unix_time_ms);

}  // namespace causeway::observe
