// Structured log: one event a line, fields as key=value or JSON, to standard error.
//
//   log.Info(event::kPeerUp, {{"peer", "tokyo"}, {"rtt_ms", 98.2}}, "link established");
//   time=2030-01-02T03:04:05.678Z level=info event=peer.up peer=tokyo rtt_ms=98.2 text="link
//   established"
//
// Threads: every method from any thread; never waits for the reader of standard error (a bounded
// queue between, oldest lines dropped and counted). Lines of one event id are rate limited, and the
// next line that passes carries suppressed=N. Values are escaped: a peer's bytes cannot forge a
// line. Does not: log key material (callers pass names, sizes and hashes, never contents).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace causeway::observe {

enum class Level : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

// One key with its value; borrows both for the call.
class Field {
 public:
  using Value = std::variant<std::string_view, int64_t, uint64_t, double, bool>;

  Field(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  Field(std::string_view key, const char* value) : key_(key), value_(std::string_view(value)) {}
  Field(std::string_view key, const std::string& value)
      : key_(key), value_(std::string_view(value)) {}
  Field(std::string_view key, bool value) : key_(key), value_(value) {}
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Field(std::string_view key, T value) : key_(key), value_(Widen(value)) {}

  std::string_view key() const { return key_; }
  const Value& value() const { return value_; }

 private:
  template <typename T>
  static Value Widen(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(value);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<int64_t>(value);
    } else {
      return static_cast<uint64_t>(value);
    }
  }

  std::string_view key_;
  Value value_;
};
using Fields = std::initializer_list<Field>;

inline constexpr size_t kLogLineBytesMax = 4096;   // longer lines lose fields, and say so: cut=true
inline constexpr size_t kLogValueBytesMax = 1024;  // longer values end in "..."
inline constexpr size_t kLogQueueLinesMax = 8192;  // between the loggers and standard error
inline constexpr int kLogBurst = 20;               // lines of one event id at once ...
inline constexpr double kLogLinesPerSecond = 2.0;  // ... and in the long run

struct LogOptions {
  Level level = Level::kInfo;  // lower ones are dropped
  LogFormat format = LogFormat::kText;
  // Journald: lines begin with the priority ("<6>") and carry no time of their own.
  bool journal = false;
  // Where lines go, without their newline. Null: standard error, through the bounded queue. A sink
  // of the caller's is called on the logging thread, one call at a time.
  std::function<void(std::string_view line)> sink;
  std::function<int64_t()> unix_time_ms;  // null: the system's clock
  std::function<int64_t()> monotonic_ms;  // for rate limiting; null: the system's clock
};

class Logger {
 public:
  explicit Logger(LogOptions options);
  ~Logger();  // writes what is queued
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // `event` is a stable id of [a-z0-9.-] (events.h); anything else is a caller's bug.
  void Log(Level level, std::string_view event, absl::Span<const Field> fields,
           std::string_view text);
  void Log(Level level, std::string_view event, Fields fields, std::string_view text) {
    Log(level, event, absl::MakeConstSpan(fields.begin(), fields.size()), text);
  }
  void Debug(std::string_view event, Fields fields, std::string_view text) {
    Log(Level::kDebug, event, fields, text);
  }
  void Info(std::string_view event, Fields fields, std::string_view text) {
    Log(Level::kInfo, event, fields, text);
  }
  void Warning(std::string_view event, Fields fields, std::string_view text) {
    Log(Level::kWarning, event, fields, text);
  }
  void Error(std::string_view event, Fields fields, std::string_view text) {
    Log(Level::kError, event, fields, text);
  }

  // Guards work that only serves a line.
  bool Enabled(Level level) const;
  // Lines lost so far because standard error did not keep up.
  uint64_t lines_dropped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "debug", "info", "warning", "error"; "text", "json". InvalidArgument lists the choices.
absl::StatusOr<Level> ParseLevel(std::string_view text);
absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text);
std::string_view LevelName(Level level);

// True when standard error is journald's stream ($JOURNAL_STREAM names its device and inode).
bool StandardErrorIsJournal();

}  // namespace causeway::observe
